import type { Progress } from './call.ts'
import type { Principal, TenantId } from './principal.ts'
import type { RawAnswer } from './raw-answer.ts'

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
}>

/**
 * Whose access a call uses. `static` is that of the named deployment; `dynamic` is found for the caller: its own, else that
 * of a team, else that of the organisation; `enterprise_managed` is exchanged at the identity provider.
 */
export type CredentialMode = 'static' | 'dynamic' | 'enterprise_managed'
export type UpstreamCredential = Readonly<{ mode: CredentialMode; deploymentId?: string }>

/** A token with which the caller itself came, for `enterprise_managed`. `type` is that of RFC 8693; a JWT's where it is left out. */
export type SubjectToken = Readonly<{ token: string; type?: string }>

export type UpstreamTarget = Readonly<{
  tenant: TenantId
  toolId: string
  principal: Principal
  credential: UpstreamCredential
  /** Never kept, and never of another caller than `principal`. */
  subject?: SubjectToken
}>

export type UpstreamCallOptions = Readonly<{
  signal: AbortSignal
  onProgress?: (update: Progress) => void
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
