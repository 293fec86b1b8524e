import { expect } from 'vitest'
import { startRealServer } from './real-server.ts'
import type { ServerHere } from './server-here.ts'
import { makeTlsPair } from './tls-files.ts'
import { once } from './workspace-effects.ts'

type Tools = Readonly<{
  serve(env: Record<string, string>): Promise<ServerHere>
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
    await expect(serve(env)).rejects.toThrow(`'${field}' says that others reach the server, and no API key is live`)
  }
  return {
    tls_cert: speaksTls,
    tls_key: speaksTls,
    public_url: demandsKeys('public_url', { CASTELLAN_PUBLIC_URL: 'https://castle.example' }),
    trusted_proxies: demandsKeys('trusted_proxies', { CASTELLAN_TRUSTED_PROXIES: '127.0.0.0/8' }),
  }
}
