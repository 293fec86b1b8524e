import { z } from 'zod'
import { workspaceFields } from './workspace-params.ts'

/** A workspace after it was started or stopped. */
export const startedOrStopped = z.strictObject({
  workspace_id: z.string(),
  name: z.string(),
  state: workspaceFields.state,
  ip: workspaceFields.ip,
  changed: z.boolean().describe('False when it was so already.'),
  message: workspaceFields.message,
})
