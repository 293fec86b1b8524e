import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'file_list',
  toolset: 'workspaces',
  trust: { reads: 'workspace' },
  title: 'List a directory',
  description:
    'List one directory of a running workspace, sorted by name, with kind, size, permissions and time of each entry.',
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
    limit: z.int().min(1).max(limits.fileListEntriesMax).default(1000).describe('How many entries at most.'),
  }),
  output: z.strictObject({
    path: z.string(),
    entries: z.array(
      z.strictObject({
        name: z.string(),
        kind: z.enum(['file', 'dir', 'symlink', 'other']),
        size: z.int(),
        permissions: z.string().describe('Such as rwxr-xr-x.'),
        modified: z.int().describe('Seconds since 1970.'),
      }),
    ),
    truncated: z.boolean().describe('True when there are more than the limit.'),
  }),
  run: (input, { workspaces, call }) => workspaces.listFiles(call, input),
})
