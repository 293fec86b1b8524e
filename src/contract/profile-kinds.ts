export const profileKinds = ['agent', 'llm_proxy', 'mcp_gateway', 'profile'] as const
export type ProfileKind = (typeof profileKinds)[number]

/** The tools that a client sees: all that are assigned, or only `search_tools` and `run_tool`. */
export const exposures = ['full', 'search_and_run_only'] as const
export type Exposure = (typeof exposures)[number]
