import type { Readable, Writable } from 'node:stream'
import { limits } from '../../contract/limits.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { errorResponse, jsonRpcCodes } from '../../mcp/json-rpc.ts'
import { stdioLines } from '../../mcp/line-transport.ts'
import type { RemoteLines } from './remote-lines.ts'

/** Connects the client on the standard streams to a remote server, until the client disconnects or `ended` resolves. */
export async function serveRemoteClient(
  streams: Readonly<{ input: Readable; output: Writable }>,
  remote: RemoteLines,
  ended: Promise<unknown>,
): Promise<void> {
  const client = stdioLines(streams.input, streams.output)
  const left = Promise.withResolvers<void>()
  const read = (): void => {
    if (remote.pending() < remoteLimits.remoteRequestsMax) client.resume()
    else client.pause()
  }
  remote.onLine((line) => void client.send(line))
  remote.onSettled(read)
  client.onClose(left.resolve)
  client.onOversizedLine(() => {
    const message = 'Invalid Request: the message is too long'
    client.send(errorResponse(null, jsonRpcCodes.invalidRequest, message))
  })
  client.onLine((line) => {
    remote.send(line)
    read()
  })
  await Promise.race([left.promise, ended])
  client.pause()
  // A client that closes its end may still want the answers; one with subscriptions is not waited for.
  await Promise.race([remote.idle(), ended, pause(limits.shutdownGraceMs)])
  await remote.close()
  await client.close()
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref())
