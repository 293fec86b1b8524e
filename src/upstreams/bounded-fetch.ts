import { limits } from '../contract/limits.ts'
import { withTimeout } from '../kernel/with-timeout.ts'
import type { Fetch } from '../web-client/checked-fetch.ts'

/** For small answers that are read whole: bounded in size and time. */
export const boundedFetch =
  (send: Fetch, signal: AbortSignal): Fetch =>
  async (url, init = {}) => {
    const until = withTimeout(signal, limits.mcpConnectMs)
    const response = await send(url, { ...init, signal: until })
    const { status, headers } = response
    const text = await readBounded(response)
    return new Response(status === 204 || status === 304 ? null : text, { status, headers })
  }

async function readBounded({ body, headers }: Response): Promise<string | null> {
  if (body === null) return null
  if (headers.get('content-type')?.includes('text/event-stream')) {
    await body.cancel()
    return ''
  }
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > limits.mcpOauthBytesMax) throw new Error(`the answer has more than ${limits.mcpOauthBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
