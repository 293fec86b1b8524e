import { expect, it } from 'vitest'
import { maskedLog } from './masked-log.ts'

it('masks the values of a connection, and each token from when it is first sent', async () => {
  const lines: string[] = []
  let current = 'token-of-monday'
  const { spec, log } = maskedLog(
    {
      kind: 'remote',
      name: 'notes',
      url: 'https://example.com/mcp',
      headers: { 'x-key': 'key-in-a-header' },
      query: {},
      cookies: {},
      authorization: { token: async () => current, renew: async () => {} },
    },
    (line) => lines.push(line),
  )
  if (spec.kind !== 'remote') throw new Error('another kind')
  await spec.authorization!.token()
  log('key-in-a-header and token-of-monday')
  current = 'token-of-tuesday'
  await spec.authorization!.token()
  log('token-of-monday, then token-of-tuesday')
  expect(lines).toEqual(['*** and ***', '***, then ***'])
})

it('keeps what else a specification has', () => {
  const local = { kind: 'local', env: { TOKEN: 'value-of-token' }, files: {} } as never
  const lines: string[] = []
  const masked = maskedLog(local, (line) => lines.push(line))
  expect(masked.spec).toBe(local)
  masked.log('it is value-of-token')
  expect(lines).toEqual(['it is ***'])
})
