/** How far a run of an agent or a workflow is. */
export const runStatuses = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const
export type RunStatus = (typeof runStatuses)[number]

const ended: ReadonlySet<string> = new Set<RunStatus>(['completed', 'failed', 'cancelled'])
export const isEndedStatus = (status: string): boolean => ended.has(status)
