import type { ServerResponse } from 'node:http'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import { type Random, randomId } from '../kernel/random.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { clientOfStream } from './calling-client.ts'
import type { ListeningCallers } from './listening-callers.ts'
import { createSubscriptions, type Subscriptions, subscribedUris, withSubscribedUris } from './subscriptions.ts'

type Deps = Readonly<{
  content: (() => Promise<UpstreamContent | undefined>) | undefined
  listening: Pick<ListeningCallers, 'tell'>
  random: Random
}>

/** Listeners for resources of a gateway in the stateless revision. */
export type ResourceStreams = Readonly<{
  /** The request with its existing resources, of which its caller is notified until the response is closed. */
  subscribed(res: ServerResponse, caller: ToolCaller, body: unknown): Promise<unknown>
  /** Something may have changed for callers of the tenant. */
  review(tenant: TenantId): Promise<void>
}>

export function createResourceStreams({ content: open, listening, random }: Deps): ResourceStreams {
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
      const begin = (uri: string) => subscriptions.begin(content, principal, uri, client)
      const opened = await Promise.allSettled(uris.map(begin))
      return withSubscribedUris(
        body,
        uris.filter((_, index) => opened[index]!.status === 'fulfilled'),
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
