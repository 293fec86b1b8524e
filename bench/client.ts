/**
 * The one driver that every contender is measured with. It lives in the bench process, keeps a fixed number of calls in flight
 * over a connection, and does as little as it can per call: request bodies are ready-made text, answers are not parsed, only
 * searched for an error.
 */

/** One client of one server. An answer is the raw bytes of the response, or an Error when none will come. */
export type Answer = Buffer | Error
export type Connection = Readonly<{
  /** The server's process. */
  pid: number
  /** `body` is the request without its envelope: `"method":"…","params":{…}`. Bytes are valid only during `done`. */
  send(body: string, done: (answer: Answer) => void): void
  notify(body: string): void
  close(): Promise<void>
}>

export type Load = Readonly<{
  inFlight: number
  /** Stops issuing calls at whichever comes first. */
  callsMax: number
  timeMaxMs: number
  /** The body of the n-th call. */
  body: (n: number) => string
}>
export type Measurement = Readonly<{
  calls: number
  perSecond: number
  p50Ms: number
  p99Ms: number
  longestMs: number
}>

const answerTimeoutMs = 60_000

export const methodBody = (method: string, params: unknown): string =>
  `"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}`
export const callBody = (tool: string, args: Readonly<Record<string, unknown>>): string =>
  methodBody('tools/call', { name: tool, arguments: args })

const serverFailure = (text: string): Error => new Error(`the server answered an error: ${text.slice(0, 600)}`)

/** A JSON-RPC error stands beside the id; further in, the word may be part of what a server says of itself. */
const envelopeBytes = 160

const failureOf = (answer: Answer): Error | null => {
  if (answer instanceof Error) return answer
  if (!answer.subarray(0, envelopeBytes).includes('"error":{') && !answer.includes('"isError":true')) return null
  return serverFailure(answer.toString('utf8'))
}

const payloadOf = (answer: Buffer): string => {
  const text = answer.toString('utf8')
  if (text.startsWith('{')) return text
  const event = text.split('\n').findLast((line) => line.startsWith('data:') && line.includes('"jsonrpc"'))
  if (event === undefined) throw new Error(`not a JSON-RPC response: ${text.slice(0, 300)}`)
  return event.slice('data:'.length)
}

/** One request with its answer parsed: for set-up and checks, never inside a measurement. */
export const request = (connection: Connection, method: string, params: unknown): Promise<Record<string, unknown>> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), answerTimeoutMs)
    connection.send(methodBody(method, params), (answer) => {
      clearTimeout(timer)
      if (answer instanceof Error) return reject(answer)
      try {
        const text = payloadOf(answer)
        const { result } = JSON.parse(text) as { result?: Record<string, unknown> }
        if (result === undefined || result['isError'] === true) throw serverFailure(text)
        resolve(result)
      } catch (error) {
        reject(error)
      }
    })
  })

/** The structured answer of one tool call. */
export const callTool = async (
  connection: Connection,
  name: string,
  args: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> => {
  const result = await request(connection, 'tools/call', { name, arguments: args })
  return result['structuredContent'] as Record<string, unknown>
}

const quantile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN

const summarise = (latencies: readonly number[], elapsedMs: number): Measurement => {
  const sorted = Float64Array.from(latencies).sort()
  return {
    calls: sorted.length,
    perSecond: (sorted.length / elapsedMs) * 1000,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    longestMs: quantile(sorted, 1),
  }
}

/** Keeps `inFlight` calls under way until the load is done. Rejects on the first call that fails or is never answered. */
export const drive = (connection: Connection, load: Load): Promise<Measurement> =>
  new Promise((resolve, reject) => {
    const latencies: number[] = []
    const started = performance.now()
    let issued = 0
    let open = 0
    let over = false
    let watchdog = setTimeout(() => {}, 0)
    const finish = (failure: Error | null): void => {
      if (over) return
      over = true
      clearTimeout(watchdog)
      if (failure === null) resolve(summarise(latencies, performance.now() - started))
      else reject(failure)
    }
    const issue = (): void => {
      const sentAt = performance.now()
      if (over || issued >= load.callsMax || sentAt - started >= load.timeMaxMs) {
        if (open === 0) finish(null)
        return
      }
      open += 1
      connection.send(load.body(issued++), (answer) => {
        open -= 1
        latencies.push(performance.now() - sentAt)
        const failure = failureOf(answer)
        if (failure === null) issue()
        else finish(failure)
      })
    }
    clearTimeout(watchdog)
    watchdog = setTimeout(() => finish(new Error('calls were left unanswered')), load.timeMaxMs + answerTimeoutMs)
    for (let n = 0; n < load.inFlight; n++) issue()
  })
