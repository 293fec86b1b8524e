import type { ServerResponse } from 'node:http'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { ContentRequest, UpstreamContent } from '../contract/upstream-content.ts'
import { type Random, randomId } from '../kernel/random.ts'
import { createSemaphore } from '../kernel/semaphore.ts'
import type { ToolAnswer, ToolCaller } from '../tools/runtime/tool-host.ts'
import { clientOfStream } from './calling-client.ts'
import type { ListeningCallers } from './listening-callers.ts'
import type { StartCall } from './start-call.ts'
import { createSubscriptions, type Subscriptions, subscribedUris, withSubscribedUris } from './subscriptions.ts'

type Deps = Readonly<{
  content: (() => Promise<UpstreamContent | undefined>) | undefined
  listening: Pick<ListeningCallers, 'tell'>
  startCall: StartCall
  random: Random
}>

/** Listeners for resources of a gateway in the stateless revision. */
export type ResourceStreams = Readonly<{
  /** The request with its existing resources, of which its caller is notified until the response is closed. */
  subscribed(res: ServerResponse, caller: ToolCaller, body: unknown): Promise<unknown>
  /** Something may have changed for callers of the tenant. */
  review(tenant: TenantId): Promise<void>
}>

const SUBSCRIBING_AT_ONCE = 8

export function createResourceStreams({ content: open, listening, startCall, random }: Deps): ResourceStreams {
  /** Whether it may be subscribed to, and was. It is judged and recorded like reading the resource, whose address it sends. */
  const isAllowed = (caller: ToolCaller, uri: string, send: ContentRequest['send']): Promise<boolean> =>
    new Promise((resolve) => {
      const request = { method: 'subscriptions/listen', isRead: false, send }
      const settled = ({ failure }: ToolAnswer): void => resolve(failure === undefined)
      startCall(undefined, caller, 'read_mcp_resource', { uri }, undefined, settled, undefined, request)
    })
  const streams = new Set<Readonly<{ subscriptions: Subscriptions; principal: Principal }>>()
  return {
    async subscribed(res, caller, body) {
      const { principal } = caller
      const uris = principal.gateway === undefined ? [] : subscribedUris(body)
      const content = uris.length === 0 ? undefined : await open?.()
      if (content === undefined) return body
      const ended = new AbortController()
      const subscriptions = createSubscriptions(ended.signal)
      const stream = { subscriptions, principal }
      streams.add(stream)
      const leave = (): void => {
        ended.abort()
        streams.delete(stream)
      }
      res.once('close', leave)
      if (res.closed) leave()
      const client = clientOfStream(randomId(random, 'listen'), principal, ended.signal, (uri) => {
        if (subscriptions.has(uri)) listening.tell(caller, { kind: 'resource_updated', uri })
      })
      const send = async (uri: string) => {
        await subscriptions.begin(content, principal, uri, client)
        return {}
      }
      // A caller has a bounded number of calls in flight.
      const few = createSemaphore(SUBSCRIBING_AT_ONCE)
      const opened = await Promise.all(uris.map((uri) => few.run(() => isAllowed(caller, uri, () => send(uri)))))
      return withSubscribedUris(
        body,
        uris.filter((_, index) => opened[index]),
      )
    },
    async review(tenant) {
      const content = streams.size === 0 ? undefined : await open?.()
      if (content === undefined) return
      for (const { subscriptions, principal } of streams) {
        if (principal.tenant === tenant) await subscriptions.review(content, principal)
      }
    },
  }
}
