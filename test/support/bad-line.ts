import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** What happens to the bytes of the model's answer on their way: they come, they stop half-way, or they are changed. */
export type Fate = (answer: Buffer, response: ServerResponse) => void

export const whole: Fate = (answer, response) => response.end(answer)

/** The first part comes; then the line breaks, or the answer ends as if there were no more of it, or nothing happens. */
export const cutAt =
  (share: number, then: 'broken' | 'ended' | 'silent' = 'broken'): Fate =>
  (answer, response) => {
    const part = answer.subarray(0, Math.floor(answer.length * share))
    if (then === 'ended') return response.end(part)
    response.write(part, () => then === 'broken' && response.destroy())
  }

/** Between the program and the scripted model; answers meet their fates in turn, then all come through. */
export async function startBadLine(target: string, fateOf: (position: number) => Fate | undefined): Promise<string> {
  let count = 0
  const server = createServer((incoming, response) => {
    const { method, headers, url } = incoming
    // A model that is stopped resets its connections, also while it reads the request of a caller that has given up.
    const broken = (): void => void response.destroy()
    const onward = request(new URL(url!, target), { method, headers }, (answer) => {
      buffer(answer).then((body) => {
        response.writeHead(answer.statusCode!, { 'content-type': answer.headers['content-type'] ?? '' })
        const fate = fateOf(count++) ?? whole
        fate(body, response)
      }, broken)
    }).on('error', broken)
    incoming.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
