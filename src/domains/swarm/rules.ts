import { checkEnv, invalid, quoted } from '../workspaces/rules.ts'

export const GOLDEN = 'golden'
/** Where the repository of a workspace is, and where commands start. */
export const WORKSPACE_FOLDER = '/workspace'
export const SHARED_CONTEXT_FILE = '/tmp/.shared-context'

export type SwarmTask = Readonly<{
  name: string
  command: string
  workdir?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
}>

export function checkTasks(tasks: readonly SwarmTask[]): void {
  const names = new Set<string>()
  for (const [index, { name, env }] of tasks.entries()) {
    if (!/\S/.test(name)) throw invalid(`tasks.${index}.name`, 'must contain a character that is not white space')
    if (names.has(name)) throw invalid(`tasks.${index}.name`, `${quoted(name)} occurs twice; give each task its own`)
    names.add(name)
    checkEnv(`tasks.${index}.env`, env ?? {})
  }
}

/** A worker's name is a host name, which has at most 64 characters. */
const TASK_PART_MAX = 40

/**
 * Names for the workers of one swarm, in the order of the tasks: distinct, and valid whatever the tasks are called. `swarmId` is
 * random, so no other swarm uses them and no caller can take them in advance.
 */
export function workerNames(swarmId: string, taskNames: readonly string[]): readonly string[] {
  const taken = new Set<string>()
  return taskNames.map((taskName, index) => {
    const part = taskName.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, TASK_PART_MAX)
    let name = part
    for (let next = index + 1; taken.has(name) || !/[A-Za-z0-9]/.test(name); next++) name = `${part}-${next}`
    taken.add(name)
    return `${swarmId}-${name}`
  })
}
