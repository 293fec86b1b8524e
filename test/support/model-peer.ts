import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type PeerRequest = Readonly<{
  url: string
  headers: IncomingHttpHeaders
  body: Record<string, unknown>
  response: ServerResponse
}>

/** A provider on this machine that speaks as OpenAI does. `answer` may hold the request. */
export type ModelPeer = Readonly<{
  url: string
  requests: PeerRequest[]
  answer: (request: PeerRequest) => void
  close(): void
}>

/** A refusal of the provider's own. */
export const answerWith =
  (status: number) =>
  ({ response }: PeerRequest): void => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message: 'refused by the peer', code: 'peer' } }))
  }

/** As a provider answers, in a stream where that is asked for. */
export function answerChat({ body, response }: PeerRequest): void {
  const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }
  const base = { id: 'chat_1', created: 1, model: body['model'] }
  if (body['stream'] !== true) {
    const message = { role: 'assistant', content: 'Hello.', refusal: null }
    const choices = [{ index: 0, finish_reason: 'stop', logprobs: null, message }]
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ ...base, object: 'chat.completion', choices, usage }))
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const chunk = (more: object): string =>
    `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices: [], ...more })}\n\n`
  response.write(chunk({ choices: [{ index: 0, delta: { content: 'Hello.' }, finish_reason: null }] }))
  response.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
  response.end(`${chunk({ usage })}data: [DONE]\n\n`)
}

export async function startModelPeer(): Promise<ModelPeer & { answer: ModelPeer['answer'] }> {
  const requests: PeerRequest[] = []
  const service = createServer((req, response) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      const text = Buffer.concat(parts).toString('utf8')
      const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
      const request = { url: req.url!, headers: req.headers, body, response }
      requests.push(request)
      peer.answer(request)
    })
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  const peer = {
    url: `http://127.0.0.1:${(service.address() as AddressInfo).port}/v1`,
    requests,
    answer: answerChat as ModelPeer['answer'],
    close() {
      service.closeAllConnections()
      service.close()
    },
  }
  return peer
}
