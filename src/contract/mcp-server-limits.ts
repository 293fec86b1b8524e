/** What bounds the MCP servers behind this one. */
export const mcpServerLimits = {
  /** Catalogue items of a tenant, its deployments, tools of one server, former names of a tool, and what a server says of one. */
  mcpCatalogItemsMax: 2_000,
  mcpDeploymentsMax: 2_000,
  mcpToolsPerServerMax: 1_000,
  mcpToolAliasesMax: 8,
  /** Tools that a server does not list any more: so many are kept, in case they come back. */
  mcpRemovedToolsMax: 1_000,
  /** The first pause of a server that says again and again that its tools have changed; it doubles each time. */
  mcpRelistMs: 1_000,
  mcpRelistMsMax: 5 * 60_000,
  /** Pages of a server's list of tools, and the definition of one tool as JSON. */
  mcpToolPagesMax: 20,
  mcpToolBytesMax: 128 * 1024,
  mcpToolDescriptionCharsMax: 16 * 1024,
  /** One message of an MCP server, and of what it says of a failure. */
  mcpMessageBytesMax: 16 * 1024 * 1024,
  mcpErrorCharsMax: 2_000,
  /** What an authorization server may answer, how long before its end a token is renewed. */
  mcpOauthBytesMax: 1024 * 1024,
  mcpTokenRenewalMs: 30_000,
  /** How long an MCP server has to answer a handshake, a question of the newer revision, and to end by itself. */
  mcpConnectMs: 30_000,
  mcpProbeMs: 5_000,
  mcpServerEndGraceMs: 2_000,
  mcpReadinessPollMs: 100,
  mcpInstallMs: 10 * 60_000,
  /** The first rest of a server that failed; it doubles each time. */
  mcpBackOffMs: 1_000,
  mcpBackOffMsMax: 60_000,
  /** The log of a server: twice so many bytes at most, and so many of one line. */
  mcpLogBytesMax: 256 * 1024,
  mcpLogLineCharsMax: 4_000,
  mcpLogLinesMax: 2_000,
  /** How often another process's changes of the tools are looked for. */
  mcpVersionPollMs: 2_000,
  /** Questions that a server has open on one connection, rounds of questions in one call, and how long a client has for an answer. */
  mcpQuestionsOpenMax: 8,
  mcpRoundsMax: 32,
  mcpAnswerMs: 10 * 60_000,
  /** Connections to servers that one client has for itself without a session, and all clients of one caller together. */
  mcpConnectionsPerClientMax: 4,
  mcpConnectionsPerCallerMax: 16,
  /** How long a task of a server may take, and how often it is looked at: what the server wishes lies in between. */
  mcpUpstreamTaskMs: 60 * 60_000,
  mcpTaskPollMsMin: 50,
  mcpTaskPollMsMax: 10_000,
  /** What a client says of itself, if its session is to outlive the process. */
  mcpInitializeCharsMax: 16 * 1024,
  /** Resources of which one client is told. */
  mcpSubscriptionsMax: 32,
  /** Calls that wait for their client to answer and call again: of one caller, and of all. */
  mcpWaitingPerCallerMax: 32,
  mcpWaitingMax: 512,
  /** Installation requests of a tenant, notes of one, and what each may say. */
  mcpInstallationRequestsMax: 5_000,
  mcpRequestNotesMax: 100,
  /** Resources, templates or prompts in one list of a gateway. */
  mcpContentItemsMax: 5_000,
  /** Tools of one gateway or agent, and assignments in one call. */
  toolAssignmentsMax: 1_000,
  toolAssignmentsPerCallMax: 500,
  /** Servers on a page in the format of the registry, by default and at most. */
  mcpRegistryPageDefault: 30,
  mcpRegistryPageMax: 100,
} as const
