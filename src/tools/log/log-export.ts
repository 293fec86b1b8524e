import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'log_export',
  toolset: 'log',
  title: 'Export the log',
  description:
    'The log as lines of a file that anyone can verify. Ask again with next_from and the same size until next_from is null; the lines of all pages, each with a line feed, are the file. `castellan export FILE` does this.',
  permission: 'auditLog:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { source: 'record' },
  input: z.strictObject({
    from: z.int().min(0).default(0).describe('First entry of the page.'),
    limit: z.int().min(1).max(limits.exportPageMax).default(limits.exportPageMax).describe('Entries at most.'),
    size: z.int().min(0).optional().describe('Export as of this size; the present one when left out.'),
  }),
  output: z.strictObject({
    size: z.int(),
    from: z.int(),
    lines: z.array(z.string()),
    next_from: z.int().nullable(),
  }),
  run: (input, { log, call }) => log.exportPage(call, input),
})
