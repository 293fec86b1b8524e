import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { canonicalJson } from '../kernel/canonical-json.ts'
import { type Clock, systemClock } from '../kernel/clock.ts'

/**
 * Calls tools of a server from outside, each call signed. The key is made here and its private half never leaves; the
 * session begins with the first call, and again when the server says that it is over.
 *
 *   const client = createSealClient({ url: 'http://127.0.0.1:7433', apiKey })
 *   const agents = await client.call('aegis.agent.list')
 */
export type SealClientOptions = Readonly<{
  /** Where the server is, without a path. */
  url: string
  /** Sent only to begin a session. From the server's own machine none may be needed. */
  apiKey?: string
  securityContext?: string
  agentId?: string
  executionId?: string
  taskSummary?: string
  /** An Ed25519 private key as PEM, to be known by the same key each time. */
  privateKeyPem?: string
  fetch?: typeof fetch
  clock?: Clock
}>

export type SealTool = Readonly<{ name: string; description: string; inputSchema: Readonly<Record<string, unknown>> }>

export type SealClient = Readonly<{
  /** What the tool answers. Rejects with a SealError when the server refuses. */
  call(
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: Readonly<{ signal?: AbortSignal }>,
  ): Promise<unknown>
  /** The tools that a session of this client could call. */
  tools(): Promise<readonly SealTool[]>
}>

const REASON_HEADER = 'x-castellan-error-code'

/** `reason` is the name of the refusal, such as TOOL_NOT_ALLOWED; `code` that of JSON-RPC, where there was one. */
export class SealError extends Error {
  override name = 'SealError'
  readonly status: number
  readonly reason: string | undefined
  readonly code: number | undefined
  readonly retryAfterSeconds: number | undefined

  constructor(response: Response, message: string, code?: number) {
    super(message)
    this.status = response.status
    this.reason = response.headers.get(REASON_HEADER) ?? undefined
    this.code = code
    const after = Number(response.headers.get('retry-after') ?? Number.NaN)
    this.retryAfterSeconds = Number.isFinite(after) ? after : undefined
  }
}

type Refusal = Readonly<{ error?: Readonly<{ message?: string; code?: number | string }> }>

export function createSealClient(options: SealClientOptions): SealClient {
  const { url, apiKey, securityContext } = options
  const base = url.replace(/\/+$/, '')
  const send = options.fetch ?? fetch
  const clock = options.clock ?? systemClock
  const privateKey =
    options.privateKeyPem === undefined
      ? generateKeyPairSync('ed25519').privateKey
      : createPrivateKey(options.privateKeyPem)
  const identity = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  let session: Promise<string> | undefined
  let lastId = 0

  async function attest(): Promise<string> {
    const response = await send(`${base}/v1/seal/attest`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...identity },
      body: JSON.stringify({
        public_key: publicKeyOf(privateKey),
        security_context: securityContext,
        agent_id: options.agentId,
        execution_id: options.executionId,
        task_summary: options.taskSummary,
      }),
    })
    return (await answerOf<{ security_token: string }>(response)).security_token
  }

  /** Concurrent calls open one session, and a failed attempt is repeated by the next call. */
  function token(): Promise<string> {
    if (session === undefined) {
      const opened = attest()
      session = opened
      opened.catch(() => forget(opened))
    }
    return session
  }

  function forget(ended: Promise<string>): void {
    if (session === ended) session = undefined
  }

  async function invoke(
    name: string,
    args: unknown,
    signal: AbortSignal | undefined,
    isLast: boolean,
  ): Promise<unknown> {
    const used = token()
    const payload = { jsonrpc: '2.0', id: ++lastId, method: 'tools/call', params: { name, arguments: args } }
    const envelope = sealEnvelope(privateKey, await used, payload, clock.nowMs())
    const response = await send(`${base}/v1/seal/invoke`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: envelope,
      ...(signal === undefined ? {} : { signal }),
    })
    if (!isLast && isSessionOver(response)) {
      // Nothing was done yet, so the call may be repeated in a new session.
      await response.body?.cancel()
      forget(used)
      return await invoke(name, args, signal, true)
    }
    return (await answerOf<{ result: unknown }>(response)).result
  }

  return {
    call: (name, args = {}, { signal } = {}) => invoke(name, args, signal, false),
    async tools() {
      const query = securityContext === undefined ? '' : `?security_context=${encodeURIComponent(securityContext)}`
      const response = await send(`${base}/v1/seal/tools${query}`, { headers: identity })
      return (await answerOf<{ tools: readonly SealTool[] }>(response)).tools
    },
  }
}

const isSessionOver = ({ status, headers }: Response): boolean =>
  status === 401 || (status === 403 && headers.get(REASON_HEADER) === 'SESSION_INACTIVE')

/** The text of a signed call. What is signed is canonical JSON with the time in whole seconds. */
function sealEnvelope(privateKey: KeyObject, token: string, payload: unknown, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000)
  const signed = canonicalJson({ payload, security_token: token, timestamp: seconds })
  return JSON.stringify({
    protocol: 'seal/v1',
    security_token: token,
    signature: sign(null, Buffer.from(signed), privateKey).toString('base64'),
    payload,
    timestamp: new Date(seconds * 1000).toISOString(),
  })
}

const PUBLIC_KEY_BYTES = 32

const publicKeyOf = (privateKey: KeyObject): string =>
  createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-PUBLIC_KEY_BYTES).toString('base64')

async function answerOf<T>(response: Response): Promise<T> {
  const text = await response.text()
  if (response.ok) return JSON.parse(text) as T
  const { error } = (text.startsWith('{') ? JSON.parse(text) : {}) as Refusal
  const code = typeof error?.code === 'number' ? error.code : undefined
  throw new SealError(response, error?.message ?? `The server answered ${response.status}.`, code)
}
