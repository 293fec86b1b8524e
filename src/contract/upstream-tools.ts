import type { Progress } from './call.ts'
import type { CallingClient } from './calling-client.ts'
import type { Principal, TenantId } from './principal.ts'
import type { RawAnswer } from './raw-answer.ts'
import type { Scope } from './sharing.ts'
import type { UnreachableServer } from './upstream-content.ts'

/** A JSON object as another server sent it. */
type ForeignObject = Readonly<Record<string, unknown>>

/** A tool of an upstream MCP server, as a deployment last listed it. The object is immutable: a new list has new objects. */
export type UpstreamTool = Readonly<{
  /** Does not change while the server offers the tool, even if the server is renamed. */
  id: string
  /** Another one where a deployment describes the tool differently. */
  definition: string
  tenant: TenantId
  /** The catalogue item that it belongs to. */
  catalogId: string
  serverName: string
  /** `<server>__<tool>`, at most 64 characters out of a–z, A–Z, 0–9, `_` and `-`. A tool of another server may have it too. */
  name: string
  /** Names that it had before. */
  aliases: readonly string[]
  title?: string
  description: string
  inputSchema: ForeignObject
  outputSchema?: ForeignObject
  annotations?: ForeignObject
  /** The server may answer a call with a task. */
  takesTasks?: true
}>

/**
 * Whose credentials a call uses. `static`: those of the named deployment. `dynamic`: the caller's own, else a team's, else the
 * organisation's. `enterprise_managed`: exchanged at the identity provider.
 */
export type CredentialMode = 'static' | 'dynamic' | 'enterprise_managed'
export type UpstreamCredential = Readonly<{ mode: CredentialMode; deploymentId?: string }>

/** A token of the caller at an identity provider, for `enterprise_managed`. `type` is that of RFC 8693. */
export type SubjectToken = Readonly<{ token: string; type: string }>
export const subjectTokenTypes = ['access_token', 'id_token', 'jwt'] as const
export type SubjectTokenType = (typeof subjectTokenTypes)[number]

/** A person's tokens at an identity provider, for the duration of the session that began with them. */
type Subject = Readonly<{
  /** Different for each sign-in. */
  id: string
  /** Renewed before it expires. Rejects if the session has ended, or the provider no longer renews it. */
  token(type: SubjectTokenType): Promise<SubjectToken>
}>

/** An identity provider whose tokens are stored, and the only addresses to which they are ever sent, besides its own. */
export type TokenSource = Readonly<{ id: string; name: string; tenant: TenantId; exchangeEndpoints: readonly string[] }>

export type Subjects = Readonly<{
  /** The provider whose tokens may be exchanged at the address. */
  sourceAt(tenant: TenantId, endpoint: string): TokenSource | undefined
  /** The subject of the person's newest session with the provider; undefined for callers that are not people. */
  subjectOf(principal: Principal, source: TokenSource): Promise<Subject | undefined>
}>

export type UpstreamTarget = Readonly<{
  tenant: TenantId
  toolId: string
  principal: Principal
  credential: UpstreamCredential
  /** The address that the caller used, for links. */
  origin?: string
}>

export type UpstreamCallOptions = Readonly<{
  signal: AbortSignal
  onProgress?: ((update: Progress) => void) | undefined
  /** The client that answers questions of the server; nobody if absent. */
  client?: CallingClient | undefined
  /** The server declared that the tool can be called as a task. */
  asTask?: boolean
}>

/** What the deployments of one server list, once for all that list the same. */
export type UpstreamList = Readonly<{
  /** Another one whenever the tools are others. */
  id: string
  /** How widely the server is shared: of two tools with one name, that of the wider server keeps it. */
  scope: Scope
  tools: readonly UpstreamTool[]
}>

/** What the deployments list that serve one principal. */
export type ServedLists = Readonly<{
  /** The list that its calls use by default, by the id of the catalogue item. */
  byItem: ReadonlyMap<string, string>
  /** By the id of each deployment that a call may use where an assignment names it. */
  byDeployment: ReadonlyMap<string, string>
  /** For an agent: the tools that it was given, by id, each with the deployment that it was given it with, if any. */
  assigned: ReadonlyMap<string, string | null>
}>

/** The tools of upstream MCP servers, for the catalogue. */
export type UpstreamTools = Readonly<{
  /**
   * Grows whenever `list` or `visibleTo` would answer differently, and only then. 0 if there has never been an upstream tool:
   * then neither is called.
   */
  version(tenant: TenantId): number
  /** The lists of all deployments of the tenant, whether or not a caller may see them, in stable order. Equal tools are one object. */
  list(tenant: TenantId): Promise<readonly UpstreamList[]>
  /** Those of the deployments that serve the principal: its own, a team's, or the organisation's. */
  visibleTo(principal: Principal): Promise<ServedLists>
  /**
   * The servers that are deployed for the principal and cannot be reached now, of these catalogue items or of all. Their tools
   * may be outdated or missing.
   */
  unreachableFor(principal: Principal, items?: ReadonlySet<string>): Promise<readonly UnreachableServer[]>
  /** Called after `version` has grown. Returns an unsubscribe function. */
  onChanged(listener: (tenant: TenantId) => void): () => void
  /**
   * Rejects with an AppError if the server cannot be reached, or the caller has no credential. The tool's own answer, even a
   * failure, is returned.
   */
  call(
    target: UpstreamTarget,
    args: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<RawAnswer>
}>
