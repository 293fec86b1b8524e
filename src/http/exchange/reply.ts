import type { ServerResponse } from 'node:http'
import { type Headers, sendJson } from './send-text.ts'

/** Where the one answer to a request goes, as JSON. */
export type Reply = Readonly<{
  /** The client has disconnected: nobody reads an answer any more. */
  isDisconnected(): boolean
  send(json: string, headers?: Headers): void
  /** The listener is called if the client disconnects before it has the whole answer. Called once. */
  onDisconnected(listener: () => void): void
}>

export const replyOver = (res: ServerResponse): Reply => ({
  isDisconnected: () => res.destroyed,
  send: (json, headers) => sendJson(res, 200, json, headers),
  onDisconnected: (listener) =>
    void res.on('close', () => {
      if (!res.writableFinished) listener()
    }),
})
