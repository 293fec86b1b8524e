export const profileKinds = ['agent', 'llm_proxy', 'mcp_gateway', 'profile'] as const
export type ProfileKind = (typeof profileKinds)[number]

/** Which tools a client is shown: all that are assigned, or `search_tools` and `run_tool` in their place. */
export const exposures = ['full', 'search_and_run_only'] as const
export type Exposure = (typeof exposures)[number]
