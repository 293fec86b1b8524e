import type { IncomingMessage } from 'node:http'
import type { Decision } from '../contract/decision.ts'
import type { InteractionLabels, TraceParent } from '../contract/interaction.ts'
import type { ModelTokens } from '../contract/model-tokens.ts'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { Protocol } from './protocols/protocol.ts'

/** Where the requests for one provider go. The operator names it; nobody else can. */
export type Upstream = Readonly<{
  /** The name in the address of a proxy. */
  name: string
  protocol: Protocol
  /** Scheme, host and port. */
  origin: string
  /** What stands before the paths of the provider, without a slash at its end. */
  basePath: string
  /** The key of the configuration. */
  apiKey: string | null
}> &
  PricedProvider

/** A provider, as far as its prices go. */
export type PricedProvider = Readonly<{
  name: string
  protocol: Pick<Protocol, 'name'>
  /** Whether its models are those that public prices are about. */
  isPublic: boolean
  /** Dollars for a million tokens, by model, where the configuration says so. */
  configuredPrices: ReadonlyMap<
    string,
    Readonly<{ input: number; output: number; cacheRead: number; cacheWrite: number }>
  >
}>

/** How a caller says who it is. */
export type AuthMethod = 'api_key' | 'oauth' | 'virtual_key' | 'local_owner'

export type Caller = Readonly<{
  principal: Principal
  method: AuthMethod
  /** Id of the virtual key with which the caller came. */
  virtualKey?: string
  /** What the credential is for, null for everything of a kind; absent for one that is for all. */
  grants?: Readonly<{
    /** Ids. */
    proxies: readonly string[] | null
    providers: readonly string[] | null
    /** Names; one that ends in `*` stands for all that begin so. */
    models: readonly string[] | null
  }>
}>

/** What a request shows: one of our credentials, and perhaps a key of the provider that the caller has itself. */
export type PresentedKeys = Readonly<{ ours: string | null; providers: string | null }>

/** Rejects with ERR_UNAUTHENTICATED. `null` is a caller without a credential of ours: the local owner, or nobody. */
export type AuthenticateCaller = (req: IncomingMessage, ours: string | null) => Caller | Promise<Caller>

/** The proxy at whose address a request came. */
export type ProxyFacts = Readonly<{ id: string; name: string; isUntrusted: boolean }>

export type Tokens = ModelTokens

/** One request to a model, as it ended. */
export type FinishedRequest = Readonly<{
  tenant: TenantId
  caller: Caller
  proxy: ProxyFacts | undefined
  provider: string
  protocol: Protocol['name']
  operation: string
  requestedModel: string | null
  /** The rule by which another model was asked than the requested one. */
  rule: string | null
  /** The model that answered, as the provider names it. */
  usedModel: string | null
  isStream: boolean
  /** `refused`: a limit kept it from being sent on. */
  status: 'ok' | 'failed' | 'cut_off' | 'refused'
  /** Of the provider; 0 if it did not answer. */
  httpStatus: number
  /** Ours, where we refused it, or the provider did not answer. */
  errorCode: string | null
  /** Undefined where nobody knows. */
  tokens: Tokens | undefined
  /** In millionths of a dollar; null where nobody knows. */
  costMicrodollars: number | null
  /** The provider did not say: the stream ended before, and this is reckoned from what passed. */
  isEstimated: boolean
  startedAtMs: number
  durationMs: number
  firstByteMs: number | null
  labels: InteractionLabels
  traceParent: TraceParent | undefined
  /** What rules said of the results in the request and of the calls in its answer. */
  decisions: readonly Decision[]
  /** As it was sent on; undefined where there is none. */
  requestBody: Buffer | undefined
  answerBytes: number
  /** The beginning of it; undefined unless bodies are kept. */
  answerBody: Buffer | undefined
}>

export type ModelProxyDeps = Readonly<{
  upstreams: ReadonlyMap<string, Upstream>
  authenticate: AuthenticateCaller
  /** Throws ERR_NOT_FOUND for one that the caller does not see. Without a name it is the proxy `default`, if there is one. */
  findProxy(caller: Caller, name: string | undefined): ProxyFacts | undefined | Promise<ProxyFacts | undefined>
  /** Told of every request that was sent on, once, when it is over, and of those that a limit refused. */
  finished(request: FinishedRequest): void
}>
