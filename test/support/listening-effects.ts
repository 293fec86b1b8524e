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
    const server = await startRealServer({ env: { CASTELLAN_TLS_CERT: cert, CASTELLAN_TLS_KEY: key } })
    onEnd(() => server.stop())
    expect(server.url).toMatch(/^https:/)
  })
  const demandsKeys = (field: string, env: Record<string, string>) => async () => {
    await expect(serve(env)).rejects.toThrow(
      `'${field}' says that others reach the server, there is no live API key and no user`,
    )
  }
  return {
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
