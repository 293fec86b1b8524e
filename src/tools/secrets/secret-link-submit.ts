import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'secret_link_submit',
  toolset: 'secrets',
  title: 'Enter what a link asks for',
  description:
    'Save the values that a one-time link asks for. The page of the link does this when a person presses its button; call it yourself only in a program that has no browser. A token works once.',
  permission: null,
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    token: z.string().min(20).max(100).describe('The last part of the address of the link.'),
    values: z
      .record(z.string().min(1).max(256), z.string().max(limits.secretCharsMax))
      .refine((values) => Object.keys(values).length <= limits.secretLinkFieldsMax, 'has too many fields')
      .describe('The values, by the names of the fields.'),
  }),
  output: z.strictObject({ message: z.string() }),
  run: (input, { secretLinks, call }) => secretLinks.submit(call, input),
})
