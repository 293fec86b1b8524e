import { onTestFinished } from 'vitest'
import { setModelStage } from './model-stage.ts'
import type { Line, SeenRequest } from './scripted-model.ts'
import { startServerHere } from './server-here.ts'

type Row = Record<string, unknown>
export type Key = Readonly<{ id: string; secret: string }>
type KeyRights = Readonly<{ role?: string; tier?: string; tenant?: string; scopes?: readonly string[] }>

/** The program over HTTP with a scripted model, and callers with keys. Without a key the caller is the local owner. */
export type KeyedServer = Readonly<{
  url: string
  requests: readonly SeenRequest[]
  /** The answer of a call that must succeed. */
  call(tool: string, args: object, key?: Key): Promise<Row>
  /** The code and the message of a call that must fail. */
  refusal(tool: string, args: object, key?: Key): Promise<string>
  newKey(rights?: KeyRights): Promise<Key>
}>

export async function startKeyedServer(
  answer: (request: SeenRequest, position: number) => Line | Promise<Line>,
  aliases?: readonly string[],
): Promise<KeyedServer> {
  const stage = await setModelStage(answer, { rate_limits: { enabled: false } }, aliases)
  const server = await startServerHere({ dataDir: stage.dataDir, env: { MODEL_KEY: 'k' } })
  onTestFinished(() => server.stop())
  let keys = 0

  async function send(tool: string, args: object, key: Key | undefined) {
    const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key.secret}` }) },
      body: JSON.stringify(args),
    })
    return { isOk: response.ok, body: (await response.json()) as Row }
  }

  async function call(tool: string, args: object, key?: Key): Promise<Row> {
    const { isOk, body } = await send(tool, args, key)
    if (!isOk) throw new Error(`${tool}: ${JSON.stringify(body)}`)
    return body
  }

  return {
    url: server.url,
    requests: stage.requests,
    call,
    async refusal(tool, args, key) {
      const { isOk, body } = await send(tool, args, key)
      if (isOk) throw new Error(`${tool} succeeded: ${JSON.stringify(body)}`)
      const { code, message } = body['error'] as { code: string; message: string }
      return `${code}: ${message}`
    },
    newKey: async (rights = {}) =>
      (await call('api_key_create', {
        name: `key-${++keys}`,
        role: 'editor',
        tier: 'user',
        ...rights,
      })) as unknown as Key,
  }
}
