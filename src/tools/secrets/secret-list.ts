import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'secret_list',
  toolset: 'secrets',
  title: 'List secrets',
  description:
    'List the secrets that you entered, newest first: what each is for and whether it has a value. Administrators see those of everybody. No tool shows a value. To have one entered use secret_link_create.',
  permission: 'secret:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'secret', fields: ['id'] } },
  input: z.strictObject({ purpose: params.part('their purpose'), ...params.page }),
  output: z.strictObject({
    secrets: z.array(
      z.strictObject({
        id: z.string(),
        purpose: z.string(),
        owner: z.string().describe('Who entered it.'),
        entered: z.boolean().describe('Whether it has a value.'),
        created_at: fields.time,
        updated_at: fields.time,
      }),
    ),
    ...fields.listed,
  }),
  run: (input, { secrets, call }) => secrets.list(call, input),
})
