/**
 * A kind of conversation, and its tools. A client chooses a mode to keep other tools out of its model's sight; a mode only
 * removes from what the caller may use.
 */
export const zaruModes = ['chat', 'agentic', 'execute', 'architect', 'operator'] as const
export type ZaruMode = (typeof zaruModes)[number]

const SWITCH = 'zaru.switch_mode'

/** `operator` filters nothing. */
const sets: Readonly<Record<Exclude<ZaruMode, 'operator'>, ReadonlySet<string>>> = {
  chat: new Set([SWITCH]),
  agentic: new Set([
    SWITCH,
    'aegis.agent.generate',
    'aegis.agent.wait',
    'aegis.agent.list',
    'aegis.agent.logs',
    'aegis.task.execute',
    'aegis.task.wait',
    'aegis.task.list',
    'aegis.task.logs',
    'aegis.task.cancel',
    'aegis.tools.list',
    'aegis.tools.search',
  ]),
  execute: new Set([
    SWITCH,
    'aegis.execute.intent',
    'aegis.execute.status',
    'aegis.execute.wait',
    'aegis.workflow.wait',
  ]),
  architect: new Set([
    SWITCH,
    'aegis.workflow.generate',
    'aegis.workflow.list',
    'aegis.workflow.logs',
    'aegis.agent.generate',
    'aegis.agent.wait',
    'aegis.agent.list',
    'aegis.agent.logs',
    'aegis.schema.get',
    'aegis.schema.validate',
    'aegis.task.execute',
    'aegis.task.wait',
    'aegis.workflow.wait',
  ]),
}

export const hasTool = (mode: ZaruMode, name: string): boolean => mode === 'operator' || sets[mode].has(name)

export const isZaruMode = (text: string): text is ZaruMode => (zaruModes as readonly string[]).includes(text)
