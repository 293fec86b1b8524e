import type { Findings } from '../manifests/findings.ts'
import { namesIn, type UsedName } from '../templating/template-names.ts'
import { parseTemplate } from '../templating/templates.ts'
import { acceptedAnswers } from './answers.ts'
import { holdsPlainly } from './conditions.ts'
import { parseExpression } from './expressions.ts'
import { knownNames, unknownName } from './known-names.ts'
import type { State, WorkflowManifest } from './manifest-schema.ts'
import { type ManifestText, textsOf } from './manifest-texts.ts'
import type { Members } from './state-shapes.ts'

/**
 * Reports names in templates and conditions that can have no value where they are used. Checked when a manifest is registered,
 * not when a stored one is read: a run continues with the manifest that it started with.
 */
export function checkNames(findings: Findings, manifest: WorkflowManifest): void {
  const earlier = earlierStates(manifest.states)
  const namesBySite = new Map<string, Members>()
  const said = new Set<string>()
  for (const site of textsOf(manifest)) {
    const key = `${site.state}/${site.moment}`
    const known = namesBySite.get(key) ?? knownNames(manifest, site.state, site.moment)
    namesBySite.set(key, known)
    for (const used of namesOf(site)) {
      const found = unknownName(known, used)
      const message = found === undefined ? tooEarly(manifest, earlier, site, used) : found.problem
      if (message === undefined || said.has(`${site.field}: ${message}`)) continue
      said.add(`${site.field}: ${message}`)
      const text = site.isExpression ? message : `{{${used.name}}}: ${message}`
      if (found?.mayCome === true) findings.warn(site.field, text)
      else findings.error(site.field, text)
    }
  }
}

/** The default answer of a Human state must select a transition, like any answer. */
export function checkAnswers(findings: Findings, { states }: WorkflowManifest): void {
  for (const [name, state] of states) {
    if (state.kind !== 'Human' || state.defaultResponse === null) continue
    const listed = acceptedAnswers(state)
    const result = { status: 'completed', response: state.defaultResponse, timeout: true }
    if (listed === null || state.transitions.some(({ condition }) => holdsPlainly(condition, result))) continue
    const field = `spec.states.${name}.default_response`
    findings.error(field, `is not accepted by any transition; use one of ${listed.join(', ').slice(0, 500)}`)
  }
}

function namesOf({ text, isExpression }: ManifestText): readonly UsedName[] {
  if (isExpression) return parseExpression(text).names
  const { problem, program } = parseTemplate(text)
  return problem === null ? namesIn(program) : []
}

/** A test may refer to a name that is still unset; an output must refer to one that can be set. */
function tooEarly(
  { states }: WorkflowManifest,
  earlier: ReadonlyMap<string, ReadonlySet<string>>,
  { state, moment }: ManifestText,
  { parts, use }: UsedName,
): string | undefined {
  const name = parts?.[0] === 'blackboard' ? parts[1] : parts?.[0]
  if (state === null || name === undefined || use !== 'text' || !states.has(name)) return undefined
  if ((name === state && moment === 'after') || earlier.get(state)?.has(name) === true) return undefined
  return `the state ${name} never runs before ${state}`
}

/** For each state, the states that may have run before it is entered; in a cycle this includes the state itself. */
function earlierStates(states: ReadonlyMap<string, State>): ReadonlyMap<string, ReadonlySet<string>> {
  const before = new Map([...states.keys()].map((name) => [name, new Set<string>()]))
  for (const start of states.keys()) {
    const reached = new Set<string>()
    const open = [start]
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      for (const { target } of states.get(name)?.transitions ?? []) {
        if (reached.has(target) || !states.has(target)) continue
        reached.add(target)
        open.push(target)
      }
    }
    for (const name of reached) before.get(name)!.add(start)
  }
  return before
}
