import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'secret_delete',
  toolset: 'secrets',
  title: 'Delete a secret',
  description:
    'Delete a secret of yours for good, such as a token that is not needed any more. Administrators can delete those of everybody. It is refused while an MCP server or a deployment refers to the secret; the answer says which. secret_list shows what there is.',
  permission: 'secret:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    id: z.string().min(1).max(128).describe('Id of the secret, or the reference to it.'),
  }),
  output: z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  run: (input, { secrets, call }) => secrets.deleteOne(call, input),
})
