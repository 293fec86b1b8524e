import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'secret_rotate',
  toolset: 'secrets',
  title: 'Rotate the key of the secrets',
  description:
    'Encrypt every secret of this installation with a new key, and remove the old key. Use it when the key may have leaked, or regularly. If the key comes from the configuration, put the new one before the old one there first. Values and references stay as they are.',
  permission: 'secret:update',
  tier: 'operator',
  effect: 'external',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  long: true,
  input: z.strictObject({}),
  output: z.strictObject({
    key: z.string().describe('Name of the key that encrypts now.'),
    rotated: z.int().describe('Secrets that were encrypted anew.'),
    unreadable: z.int().describe('Secrets that no key here decrypts; they were left as they are.'),
  }),
  run: (_input, { secrets, call }) => secrets.rotate(call),
})
