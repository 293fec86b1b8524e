import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'

/**
 * A server of a test that answers when it has read the request. A caller that leaves before is no failure of the test that runs
 * then; anything else that goes wrong is.
 */
export const answering =
  (answer: (request: IncomingMessage, response: ServerResponse) => Promise<unknown>): RequestListener =>
  (request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (!response.destroyed && request.complete) throw error
    })
  }
