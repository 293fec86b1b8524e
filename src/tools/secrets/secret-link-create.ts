import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'secret_link_create',
  toolset: 'secrets',
  title: 'Ask a person for a secret',
  description:
    'Get a one-time link to a page where a person enters a secret, such as a token or a password, so that you never see it. Give the url to the person, and use the reference instead of the value, for example in the environment of an MCP server. The link works once and for an hour.',
  permission: 'secret:create',
  tier: 'user',
  effect: 'external',
  idempotent: false,
  harmless: true,
  rate: 'create',
  skipJudge: false,
  input: z.strictObject({
    purpose: z
      .string()
      .min(1)
      .max(limits.secretPurposeCharsMax)
      .describe('What the secret is and what it is for, as the person will read it: "GitHub token of the build".'),
  }),
  output: z.strictObject({
    reference: z.string().describe('Stands for the value wherever a secret is taken.'),
    url: z.string().describe('For the person.'),
    expires_at: fields.time,
  }),
  run: (input, { secretLinks, call }) => secretLinks.createForValue(call, input),
})
