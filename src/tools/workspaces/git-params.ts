import { z } from 'zod'
import { workspaceParams } from './workspace-params.ts'

/** Parameters of the git tools, each with its words, written once. What git itself would refuse the service refuses. */
export const gitParams = {
  workspaceId: workspaceParams.workspaceId,
  path: z.string().min(1).max(4096).describe('Directory of the repository in the workspace, such as /workspace.'),
  defaultPath: z
    .string()
    .min(1)
    .max(4096)
    .default('/workspace')
    .describe('Directory of the repository in the workspace, absolute.'),
  branch: z.string().min(1).max(200),
} as const
