import { z } from 'zod'
import { workspaceParams } from './workspace-params.ts'

/** The service refuses what git itself would refuse. */
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
