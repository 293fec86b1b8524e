import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { type HttpClient, readText } from './http-client.ts'

export type Tokens = Readonly<{ accessToken: string; refreshToken: string; lifetimeMs: number }>

type JsonReply = Readonly<{ status: number; body: Record<string, unknown> }>

/** One OAuth request; the answer is bounded, and is an object or empty. */
export async function askJson(
  http: HttpClient,
  url: string,
  sent?: Readonly<{ form: Record<string, string> } | { json: unknown }>,
): Promise<JsonReply> {
  const signal = AbortSignal.timeout(remoteLimits.remoteReplyMs)
  const headers = { accept: 'application/json' }
  const type = sent !== undefined && 'form' in sent ? 'application/x-www-form-urlencoded' : 'application/json'
  const reply =
    sent === undefined
      ? await http(url, { method: 'GET', headers, signal })
      : await http(url, {
          method: 'POST',
          headers: { ...headers, 'content-type': type },
          body: 'form' in sent ? new URLSearchParams(sent.form).toString() : JSON.stringify(sent.json),
          signal,
        })
  const text = await readText(reply, remoteLimits.remoteMetadataBytesMax)
  return { status: reply.status, body: parsed(text) }
}

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>
  } catch {
    return {}
  }
}

/** Undefined if the server rejects the credential; throws if it could not be reached. */
export async function requestTokens(
  http: HttpClient,
  tokenEndpoint: string,
  form: Record<string, string>,
): Promise<Tokens | undefined> {
  const reply = await askJson(http, tokenEndpoint, { form })
  return reply.status === 400 || reply.status === 401 ? undefined : tokensIn(reply, tokenEndpoint)
}

/** Throws if the reply has no tokens. */
export function tokensIn({ status, body }: JsonReply, tokenEndpoint: string): Tokens {
  const { access_token, refresh_token, expires_in } = body
  if (status !== 200 || typeof access_token !== 'string' || typeof refresh_token !== 'string') {
    const origin = new URL(tokenEndpoint).origin
    const message = `${origin} issued no token (HTTP ${status}). Call again in a moment.`
    throw new AppError(status === 429 ? 'ERR_RATE_LIMITED' : 'ERR_WEB_FAILED', message, { status })
  }
  const lifetimeMs = typeof expires_in === 'number' ? expires_in * 1000 : 0
  return { accessToken: access_token, refreshToken: refresh_token, lifetimeMs }
}
