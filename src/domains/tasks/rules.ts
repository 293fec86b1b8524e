/** The task board's rules: states, transitions, priorities and public ids. Pure. */
export const taskStatuses = ['backlog', 'todo', 'in_progress', 'blocked', 'review', 'done', 'cancelled'] as const
export type TaskStatus = (typeof taskStatuses)[number]

/** In ascending order: sorting by priority uses the index. */
export const taskPriorities = ['low', 'normal', 'high', 'critical'] as const
export type TaskPriority = (typeof taskPriorities)[number]

export const taskTransitions: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  backlog: ['todo', 'cancelled'],
  todo: ['in_progress', 'blocked', 'cancelled'],
  in_progress: ['review', 'blocked', 'cancelled'],
  blocked: ['todo', 'in_progress', 'cancelled'],
  review: ['done', 'backlog', 'blocked', 'cancelled'],
  done: [],
  cancelled: [],
}

/** A dependency in one of these states no longer blocks anything. */
export const finishedStatuses: readonly TaskStatus[] = ['done', 'cancelled']

export const UNASSIGNED = 'unassigned'

export const formatTaskId = (number: number): string => `T-${String(number).padStart(4, '0')}`
export const formatThoughtId = (number: number): string => `Θ-${String(number).padStart(4, '0')}`
export const formatSessionId = (number: number): string => `A-${String(number).padStart(4, '0')}`

/** The number in a public id, or undefined for any other text: callers answer "not found" for both. */
export function parseNumberedId(prefix: 'T' | 'Θ' | 'A', text: string): number | undefined {
  const match = /^(.)-([0-9]{4,15})$/u.exec(text)
  if (match === null || match[1] !== prefix) return undefined
  const number = Number(match[2])
  return number > 0 && formatNumber(prefix, number) === text ? number : undefined
}

const formatNumber = (prefix: string, number: number) => `${prefix}-${String(number).padStart(4, '0')}`

/** Warnings about a change that is allowed but looks unfinished. */
export function updateWarnings(after: {
  status: TaskStatus
  progress: number
  statusChanged: boolean
  isProgressSet: boolean
  dependenciesUnmet: number
}): string[] {
  const warnings: string[] = []
  if (after.isProgressSet && after.progress === 100 && after.status !== 'done') {
    warnings.push("Progress set to 100% but status != 'done'")
  }
  if (after.statusChanged && after.status === 'done' && after.progress < 100) {
    warnings.push(`Status set to 'done' but progress is ${after.progress}%`)
  }
  if (after.statusChanged && after.status === 'in_progress' && after.dependenciesUnmet > 0) {
    warnings.push(`Status set to 'in_progress' but ${after.dependenciesUnmet} dependencies are unmet`)
  }
  return warnings
}

/** The words of a full-text query, in any script; empty if there are none. */
export const searchWords = (text: string): string[] => text.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
