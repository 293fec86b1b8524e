import { z } from 'zod'
import { whole } from '../manifests/schema-keywords.ts'
import { commandTime, forReaders, time } from './schema-words.ts'
import { type Transition, transitions } from './transition-schema.ts'

/** States that run commands, whose time-out has a maximum of its own. */
const runsCommands: ReadonlySet<string> = new Set(['System', 'ContainerRun', 'ParallelContainerRun'])

/** The fields of every state, with its own. */
export const stateShape = <Kind extends string, Own extends z.core.$ZodLooseShape>(kind: Kind, own: Own) => ({
  kind: z.literal(kind),
  transitions,
  timeout: (runsCommands.has(kind) ? commandTime : time)('Time limit of the state.').optional(),
  max_state_visits: whole(1, 20, 'How often a run may enter it.').default(5),
  description: forReaders(z.string().describe('For readers.')),
  ...own,
})

/** Legacy names of the fields that every state has. */
export const oldStateFields = { max_visits: 'max_state_visits', timeout_seconds: 'timeout' } as const

export const commonOf = (
  state: Readonly<{ transitions: readonly Transition[]; timeout?: number | undefined; max_state_visits: number }>,
) => ({
  transitions: state.transitions,
  timeoutMs: state.timeout ?? null,
  maxVisits: state.max_state_visits,
})
