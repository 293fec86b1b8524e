import type { Findings } from '../manifests/findings.ts'
import { type ShellRisk, shellRisksOf } from '../templating/shell-lines.ts'
import type { State } from './manifest-schema.ts'
import { UPDATE_BLACKBOARD } from './state-schemas.ts'

/** A value may come from an agent or from the caller. In a shell line it must not become more than one word. */
export function warnOfShellLines(findings: Findings, states: ReadonlyMap<string, State>): void {
  for (const [name, state] of states) {
    for (const { field, line } of shellLinesOf(state)) {
      for (const { kind, expression } of shellRisksOf(line).slice(0, SHELL_WARNINGS_MAX)) {
        findings.warn(`spec.states.${name}.${field}`, shellAdvice[kind](expression))
      }
    }
  }
}

type ShellLine = Readonly<{ field: string; line: string }>

function shellLinesOf(state: State): readonly ShellLine[] {
  const handler = 'outputHandler' in state && state.outputHandler?.type === 'container' ? state.outputHandler : null
  const handled = handler === null ? [] : scriptsIn('output_handler.command', handler.command, false)
  if (state.kind === 'System') {
    return state.command.trim() === UPDATE_BLACKBOARD ? [] : [{ field: 'command', line: state.command }]
  }
  if (state.kind === 'ParallelContainerRun') {
    return state.steps.flatMap(({ command, shell }, index) => scriptsIn(`steps[${index}].command`, command, shell))
  }
  return state.kind === 'ContainerRun'
    ? [...scriptsIn('command', state.step.command, state.step.shell), ...handled]
    : handled
}

const shellAdvice: Readonly<Record<ShellRisk['kind'], (expression: string) => string>> = {
  raw: (expression) =>
    `{{${expression}}} is inserted into a shell line unquoted, so its value can add commands; write {{shell ${expression}}}, or give it through env and write "$NAME"`,
  quoted: (expression) =>
    `{{shell ${expression}}} is inside quotes, which cancel its own quotes, so its value can add commands; remove the quotes around it`,
  whole: (expression) =>
    `{{${expression}}} is the whole command line, so the value decides what runs in the workspace; write the command here, with values in env, unless that is what you want`,
}

const SHELL_WARNINGS_MAX = 5
const shells = /^(?:.*\/)?(?:sh|bash|dash|ash|ksh|zsh)$/

/** The words of a command that a shell interprets as a script. */
function scriptsIn(field: string, words: readonly string[], isLine: boolean): readonly ShellLine[] {
  const option = shells.test(words[0] ?? '') ? words.findIndex((word) => /^-[a-z]*c[a-z]*$/.test(word)) : -1
  const scripts = isLine ? [words.join(' ')] : option < 0 ? [] : words.slice(option + 1, option + 2)
  return scripts.map((line) => ({ field, line }))
}
