import type { Decision } from '../contract/decision.ts'
import type { InteractionLabels, TraceParent } from '../contract/interaction.ts'
import type { ModelTokens } from '../contract/model-tokens.ts'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { ProviderKeyScope } from '../contract/provider-keys.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import type { Protocol } from './protocols/protocol.ts'

/** The upstream of one provider. Only the operator can name it. */
export type Upstream = Readonly<{
  /** The name in the address of a proxy. */
  name: string
  protocol: Protocol
  /** Scheme, host and port. */
  origin: string
  /** The prefix of the provider's paths, without a trailing slash. */
  basePath: string
  /** The key of the configuration. */
  apiKey: string | null
  /** The names under which keys for it may be stored. */
  keyNames: readonly string[]
  /** Requests without a key are refused there. */
  requiresKey: boolean
}> &
  PricedProvider

/** A provider, as far as its prices go. */
export type PricedProvider = Readonly<{
  name: string
  protocol: Pick<Protocol, 'name'>
  /** Whether public prices apply to its models. */
  isPublic: boolean
  /** Dollars for a million tokens, by model, if configured. */
  configuredPrices: ReadonlyMap<
    string,
    Readonly<{ input: number; output: number; cacheRead: number; cacheWrite: number }>
  >
  /** In tokens, by model, if configured. */
  contextWindows: ReadonlyMap<string, number>
}>

/** How a caller authenticates. */
export type AuthMethod = 'api_key' | 'oauth' | 'virtual_key' | 'local_owner'

export type Caller = Readonly<{
  principal: Principal
  method: AuthMethod
  /** Id of the caller's virtual key. */
  virtualKey?: string
  /** The restrictions of the credential, null for no restriction of a kind; absent for an unrestricted one. */
  grants?: Readonly<{
    /** Ids. */
    proxies: readonly string[] | null
    providers: readonly string[] | null
    /** Names; one that ends in `*` is a prefix. */
    models: readonly string[] | null
    /** Ids of stored keys by provider: only these pay. */
    providerKeys: Readonly<Record<string, string>> | null
  }>
}>

/** The credentials of a request: one of ours, and perhaps the caller's own provider key. */
export type PresentedKeys = Readonly<{ ours: string | null; providers: string | null }>

/** Rejects with ERR_UNAUTHENTICATED. `null` is a caller without our credential: the local owner, or nobody. */
export type AuthenticateCaller = (req: RequestHead, ours: string | null) => Caller | Promise<Caller>

/** The key that is sent to an upstream, and its owner. */
export type UsedKey = Readonly<{ value: string | null; scope: ProviderKeyScope | null }>

/** The proxy of a request. */
export type ProxyFacts = Readonly<{ id: string; name: string; isUntrusted: boolean }>

/** Tokens that may have a price of their own. Those of the input include cached ones. */
export type TokenKind =
  | 'inputAudio'
  | 'inputImage'
  | 'inputVideo'
  | 'cachedAudio'
  | 'cachedImage'
  | 'cacheWriteHour'
  | 'outputAudio'
  | 'outputImage'
  | 'outputVideo'

/** `kinds`: parts of the totals, for the cost alone. They are not stored. */
export type Tokens = ModelTokens & Readonly<{ kinds?: TokenKinds }>
export type TokenKinds = Readonly<Partial<Record<TokenKind, number>>>

/** One completed request to a model. */
export type FinishedRequest = Readonly<{
  tenant: TenantId
  caller: Caller
  proxy: ProxyFacts | undefined
  provider: string
  protocol: Protocol['name']
  operation: string
  requestedModel: string | null
  /** The rule that replaced the requested model. One of the configuration has no id. */
  rule: Readonly<{ id: string | null; name: string }> | null
  /** The model that would have been used without a rule for a cheaper one; null if there was none. */
  baseline: Readonly<{ provider: string; model: string }> | null
  /** The model that answered, as the provider names it. */
  usedModel: string | null
  isStream: boolean
  /** Whose key was sent to the provider; null for none. */
  providerKeyScope: ProviderKeyScope | null
  /** `refused`: a limit prevented it. */
  status: 'ok' | 'failed' | 'cut_off' | 'refused'
  /** The provider's status; 0 if it did not answer. */
  httpStatus: number
  /** Our code, if we refused it or the provider did not answer. */
  errorCode: string | null
  /** Undefined if unknown. */
  tokens: Tokens | undefined
  /** In billionths of a dollar; null if unknown. */
  costNanodollars: number | null
  /** The provider did not report its tokens, and they are estimated from what passed. */
  isEstimated: boolean
  startedAtMs: number
  durationMs: number
  firstByteMs: number | null
  labels: InteractionLabels
  traceParent: TraceParent | undefined
  /** The decisions on the results in the request and on the calls in its answer. */
  decisions: readonly Decision[]
  /** The body as sent; undefined if there is none. */
  requestBody: Buffer | undefined
  answerBytes: number
  /** Its beginning; undefined unless bodies are stored. */
  answerBody: Buffer | undefined
}>

export type ModelProxyDeps = Readonly<{
  upstreams: ReadonlyMap<string, Upstream>
  authenticate: AuthenticateCaller
  /** Throws ERR_NOT_FOUND for one that the caller does not see. Without a name it is the proxy `default`, if there is one. */
  findProxy(caller: Caller, name: string | undefined): ProxyFacts | undefined | Promise<ProxyFacts | undefined>
  /** Called once for every request that was sent, when it has ended, and for those that a limit refused. */
  finished(request: FinishedRequest): void
}>
