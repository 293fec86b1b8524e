import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'file_read',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'Read a file',
  description:
    'Read a text file of a running workspace, page by page where it is large. What is not text in UTF-8 is refused: fetch it with file_transfer.',
  permission: 'workspace:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  governed: { paths: ['path'] },
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    path: workspaceParams.path,
    offset: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0).describe('Byte to begin at.'),
    limit: z.int().min(1).max(limits.fileReadBytesMax).default(limits.fileReadBytesDefault).describe('Bytes at most.'),
  }),
  output: z.strictObject({
    path: z.string(),
    content: z.string(),
    size: z.int().describe('Bytes of the whole file.'),
    offset: z.int().describe('Where the content begins: never inside a character.'),
    bytes: z.int(),
    truncated: z.boolean(),
    next_offset: z.int().nullable().describe('Where to go on; null at the end.'),
  }),
  run: (input, { workspaces, call }) => workspaces.readFile(call, input),
})
