import { AppError } from '../contract/app-error.ts'
import type { CallingClient } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import { isRecord } from './call-request.ts'

/** The resources of servers behind a gateway that one client subscribed to. They end with the client. */
export type Subscriptions = Readonly<{
  /** Rejects with ERR_NOT_FOUND if there is no such resource for the caller. */
  begin(content: UpstreamContent, principal: Principal, uri: string, client: CallingClient): Promise<void>
  end(uri: string): void
  has(uri: string): boolean
  readonly size: number
  uris(): readonly string[]
  /** Ends subscriptions that the caller may no longer have. */
  review(content: UpstreamContent, principal: Principal): Promise<void>
}>

type Subscription = { readonly until: AbortController; deploymentId: string | undefined }

export function createSubscriptions(ended: AbortSignal): Subscriptions {
  const subscriptions = new Map<string, Subscription>()
  function end(uri: string): void {
    subscriptions.get(uri)?.until.abort()
    subscriptions.delete(uri)
  }
  return {
    async begin(content, principal, uri, client) {
      if (subscriptions.has(uri)) return
      if (subscriptions.size >= limits.mcpSubscriptionsMax) throw tooMany()
      const one: Subscription = { until: new AbortController(), deploymentId: undefined }
      subscriptions.set(uri, one)
      try {
        const until = AbortSignal.any([one.until.signal, ended])
        one.deploymentId = await content.subscribe(principal, uri, client, until)
      } catch (error) {
        if (subscriptions.get(uri) === one) end(uri)
        throw error
      }
    },
    end,
    has: (uri) => subscriptions.has(uri),
    get size() {
      return subscriptions.size
    },
    uris: () => [...subscriptions.keys()],
    async review(content, principal) {
      for (const [uri, { deploymentId }] of [...subscriptions]) {
        const isOffered = deploymentId === undefined || (await content.offers(principal, deploymentId, ended))
        if (!isOffered) end(uri)
      }
    },
  }
}

/** The resources that a listen request names; none in any other request. */
export function subscribedUris(body: unknown): readonly string[] {
  const uris = filterIn(body)?.['resourceSubscriptions']
  return Array.isArray(uris) ? [...new Set(uris.filter((uri) => typeof uri === 'string'))] : []
}

/** The same request for these alone: the acknowledgement names exactly the subscribed resources. */
export function withSubscribedUris(body: unknown, uris: readonly string[]): unknown {
  const { params, ...rest } = body as { params: Record<string, unknown> }
  return { ...rest, params: { ...params, notifications: { ...filterIn(body), resourceSubscriptions: uris } } }
}

function filterIn(body: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(body) || body['method'] !== 'subscriptions/listen' || !isRecord(body['params'])) return undefined
  const filter = body['params']['notifications']
  return isRecord(filter) ? filter : undefined
}

const tooMany = (): AppError =>
  new AppError('ERR_QUOTA_EXCEEDED', `uri: a client can subscribe to at most ${limits.mcpSubscriptionsMax} resources`, {
    field: 'uri',
  })
