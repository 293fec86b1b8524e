/**
 * Documented names of events that have a longer name in the journal. Journals never change, so events are renamed when they are
 * displayed, with the other name as alias.
 */
const ofWorkflows: Readonly<Record<string, string>> = {
  workflow_state_entered: 'state_entered',
  workflow_state_exited: 'state_exited',
}
const ofAgents: Readonly<Record<string, string>> = {
  execution_started: 'task_started',
  execution_completed: 'task_completed',
  execution_failed: 'task_failed',
  execution_cancelled: 'task_cancelled',
  execution_timed_out: 'task_timed_out',
}

type DisplayedName = Readonly<{ event_type: string; aliases?: readonly string[] }>

const displayedIn =
  (names: Readonly<Record<string, string>>) =>
  (type: string): DisplayedName =>
    Object.hasOwn(names, type) ? { event_type: names[type]!, aliases: [type] } : { event_type: type }

export const workflowEventName = displayedIn(ofWorkflows)
export const agentEventName = displayedIn(ofAgents)
