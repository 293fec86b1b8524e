/** What a limit binds, what it counts, and how long its periods are. */
export const entityTypes = ['organization', 'team', 'agent', 'user', 'virtual_key'] as const
export type EntityType = (typeof entityTypes)[number]
export const limitTypes = ['token_cost', 'mcp_server_calls', 'tool_calls'] as const
export type LimitType = (typeof limitTypes)[number]
export const cleanupIntervals = [
  '1h',
  '12h',
  '24h',
  '1w',
  '1m',
  'calendar_day',
  'calendar_week_sunday',
  'calendar_week_monday',
  'calendar_month',
] as const
export type CleanupInterval = (typeof cleanupIntervals)[number]
