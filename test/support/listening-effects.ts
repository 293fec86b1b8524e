import { readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { SMTPServer } from 'smtp-server'
import { expect } from 'vitest'
import { castellanJson } from './people.ts'
import { startRealServer } from './real-server.ts'
import type { ServerHere } from './server-here.ts'
import { makeTlsPair } from './tls-files.ts'
import { once } from './workspace-effects.ts'

type Tools = Readonly<{
  serve(env: Record<string, string>, dataDir?: string): Promise<ServerHere>
  newHome(): string
  onEnd(cleanup: () => Promise<unknown>): void
}>

/** What the settings of listening change; `test/e2e/tls.test.ts` goes further. */
export function listeningEffects({ serve, newHome, onEnd }: Tools): Record<string, () => Promise<void>> {
  const speaksTls = once(async () => {
    const { cert, key } = makeTlsPair(newHome(), 'effects')
    const server = await serve({ CASTELLAN_TLS_CERT: cert, CASTELLAN_TLS_KEY: key })
    expect(server.url).toMatch(/^https:/)
  })
  const demandsKeys = (field: string, env: Record<string, string>) => async () => {
    await expect(serve(env)).rejects.toThrow(
      `'${field}' makes the server reachable for others, but there is no valid API key and no user`,
    )
  }
  const mails = once(async () => {
    const pair = makeTlsPair(newHome(), 'mail')
    const senders: string[] = []
    const mailServer = new SMTPServer({
      ...{ secure: true, cert: pair.ca, key: readFileSync(pair.key, 'utf8') },
      onAuth: ({ username, password }, _, answer) =>
        username === 'a' && password === 'b' ? answer(null, { user: 'a' }) : answer(new Error('no')),
      onMailFrom({ address }, _, answer) {
        senders.push(address)
        answer()
      },
    })
    await new Promise<void>((resolve) => mailServer.listen(0, '127.0.0.1', resolve))
    onEnd(() => new Promise<void>((resolve) => mailServer.close(() => resolve())))
    const settings = {
      ...{
        CASTELLAN_SMTP_HOST: 'localhost',
        CASTELLAN_SMTP_PORT: String((mailServer.server.address() as AddressInfo).port),
      },
      ...{ CASTELLAN_SMTP_USER: 'a', CASTELLAN_SMTP_PASSWORD: 'b', CASTELLAN_SMTP_FROM: 'from@example.com' },
      ...{ CASTELLAN_SMTP_TLS: 'implicit', NODE_EXTRA_CA_CERTS: pair.cert },
    }
    const server = await startRealServer({ env: settings })
    onEnd(() => server.stop())
    expect(await castellanJson(server, ['invite', 'create', 'ada@example.com'])).toMatchObject({ mail: 'sent' })
    expect(senders).toEqual(['from@example.com'])
  })
  const fieldsOfMail = ['host', 'port', 'user', 'password', 'from', 'tls'].map(
    (name) => [`smtp.${name}`, mails] as const,
  )
  return {
    ...Object.fromEntries(fieldsOfMail),
    async oidc_providers() {
      const dataDir = newHome()
      const provider = { id: 'company', name: 'Company', issuer: 'https://login.example.com', client_id: 'x' }
      writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ oidc_providers: [provider] }))
      const server = await serve({}, dataDir)
      expect(await (await fetch(new URL('/sign-in', server.url))).text()).toContain('Sign in with Company')
    },
    async allow_plain_http() {
      const dataDir = newHome()
      await castellanJson({ dataDir }, ['users', 'create', 'ada@example.com', '--admin'])
      const everywhere = { CASTELLAN_HOST: '0.0.0.0' }
      await expect(serve(everywhere, dataDir)).rejects.toThrow('people would send their passwords over plain HTTP')
      expect((await serve({ ...everywhere, CASTELLAN_ALLOW_PLAIN_HTTP: 'true' }, dataDir)).url).toMatch(/^http:/)
    },
    tls_cert: speaksTls,
    tls_key: speaksTls,
    public_url: demandsKeys('public_url', { CASTELLAN_PUBLIC_URL: 'https://castle.example' }),
    trusted_proxies: demandsKeys('trusted_proxies', { CASTELLAN_TRUSTED_PROXIES: '127.0.0.0/8' }),
  }
}
