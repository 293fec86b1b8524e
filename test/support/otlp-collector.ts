import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { answering } from './answering.ts'

type Attribute = Readonly<{ key: string; value: Readonly<Record<string, unknown>> }>
type SeenSpan = Readonly<{
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  status: { code: number }
  attributes: Readonly<Record<string, unknown>>
}>
type Export = Readonly<{
  resourceSpans: readonly { scopeSpans: readonly { spans: readonly (SeenSpan & { attributes: Attribute[] })[] }[] }[]
}>

export type OtlpCollector = AsyncDisposable &
  Readonly<{
    url: string
    /** Each request: where it came, with which headers, and its spans. */
    seen: { path: string; headers: IncomingHttpHeaders; spans: SeenSpan[] }[]
  }>

const spansOf = ({ resourceSpans }: Export): SeenSpan[] =>
  resourceSpans
    .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
    .map((span) => ({
      ...span,
      attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
    }))

/** A collector that takes OTLP over HTTP with JSON, and answers as the test says. */
export async function startOtlpCollector(
  answer: (response: ServerResponse, position: number) => void = (response) => response.end('{}'),
): Promise<OtlpCollector> {
  const seen: OtlpCollector['seen'] = []
  const service = createServer(
    answering(async (request, response) => {
      const body = await json(request)
      const { url: path, headers } = request
      answer(response, seen.push({ path: path!, headers, spans: spansOf(body as Export) }) - 1)
    }),
  )
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      service.closeAllConnections()
      await new Promise((resolve) => service.close(resolve))
    },
  }
}
