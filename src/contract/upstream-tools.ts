import type { Progress } from './call.ts'
import type { CallingClient } from './calling-client.ts'
import type { Principal, TenantId } from './principal.ts'
import type { RawAnswer } from './raw-answer.ts'
import type { UnreachableServer } from './upstream-content.ts'

/** A JSON object as another server sent it. */
type ForeignObject = Readonly<Record<string, unknown>>

/** A tool of an MCP server behind this one, as it was last listed. The object is never changed: a new list has new ones. */
export type UpstreamTool = Readonly<{
  /** Stays the same for as long as the server offers the tool, also when the server is renamed. */
  id: string
  tenant: TenantId
  /** The catalogue item that it belongs to. */
  catalogId: string
  serverName: string
  /** `<server>__<tool>`, at most 64 characters out of a–z, A–Z, 0–9, `_` and `-`; one tool of the tenant has it. */
  name: string
  /** Names that it had before. */
  aliases: readonly string[]
  title?: string
  description: string
  inputSchema: ForeignObject
  outputSchema?: ForeignObject
  annotations?: ForeignObject
  /** The server may answer a call by a task. */
  takesTasks?: true
}>

/**
 * Whose access a call uses. `static` is that of the named deployment; `dynamic` is found for the caller: its own, else that
 * of a team, else that of the organisation; `enterprise_managed` is exchanged at the identity provider.
 */
export type CredentialMode = 'static' | 'dynamic' | 'enterprise_managed'
export type UpstreamCredential = Readonly<{ mode: CredentialMode; deploymentId?: string }>

/** A token of the caller at an identity provider, for `enterprise_managed`. `type` is that of RFC 8693. */
export type SubjectToken = Readonly<{ token: string; type: string }>
export const subjectTokenTypes = ['access_token', 'id_token', 'jwt'] as const
export type SubjectTokenType = (typeof subjectTokenTypes)[number]

/** The tokens of a person at an identity provider, for as long as the session lasts that began with them. */
type Subject = Readonly<{
  /** Another for each sign-in. */
  id: string
  /** Renewed where it is about to end. Rejects when the session is over meanwhile, or the provider renews it no more. */
  token(type: SubjectTokenType): Promise<SubjectToken>
}>

/** An identity provider whose tokens are kept, and the only addresses to which they are ever sent, beside its own. */
export type TokenSource = Readonly<{ id: string; name: string; tenant: TenantId; exchangeEndpoints: readonly string[] }>

export type Subjects = Readonly<{
  /** The provider whose tokens may be exchanged at the address. */
  sourceAt(tenant: TenantId, endpoint: string): TokenSource | undefined
  /** Those of the newest session that the person began with the provider; undefined for callers that are no person. */
  subjectOf(principal: Principal, source: TokenSource): Promise<Subject | undefined>
}>

export type UpstreamTarget = Readonly<{
  tenant: TenantId
  toolId: string
  principal: Principal
  credential: UpstreamCredential
  /** At which the caller came in, for links that help. */
  origin?: string
}>

export type UpstreamCallOptions = Readonly<{
  signal: AbortSignal
  onProgress?: ((update: Progress) => void) | undefined
  /** Who can be asked what the server asks back; nobody if it is absent. */
  client?: CallingClient | undefined
  /** The server said that the tool can be called as a task. */
  asTask?: boolean
}>

/** The tools of the MCP servers behind this one, for the catalogue. */
export type UpstreamTools = Readonly<{
  /**
   * Grows whenever `list` or `visibleTo` would answer otherwise than before, and only then. 0 where there has never been an
   * upstream tool: then neither is asked.
   */
  version(tenant: TenantId): number
  /** Every tool of the tenant, whether or not a caller may see it, in stable order. */
  list(tenant: TenantId): Promise<readonly UpstreamTool[]>
  /** The catalogue items of which a deployment serves the principal: its own, that of a team of its, or that of everybody. */
  visibleTo(principal: Principal): Promise<ReadonlySet<string>>
  /**
   * The servers that are deployed for the principal and cannot be used at the moment, of these catalogue items or of all: what it
   * finds of their tools may be old, or nothing.
   */
  unreachableFor(principal: Principal, items?: ReadonlySet<string>): Promise<readonly UnreachableServer[]>
  /** Told after `version` has grown. Answers how to stop listening. */
  onChanged(listener: (tenant: TenantId) => void): () => void
  /**
   * Rejects with an AppError when the server cannot be reached, or no credential is there for the caller; what the tool
   * itself says, also that it failed, is the answer.
   */
  call(
    target: UpstreamTarget,
    args: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<RawAnswer>
}>
