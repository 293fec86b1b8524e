import { assembleBpf, type BpfStep } from './bpf-program.ts'
import { type ArgumentRule, argumentRules, errno, ownerCalls, refusedCalls } from './refused-calls.ts'
import { auditArch, NEWEST_JUDGED_CALL, type SeccompArch, type SystemCall, systemCallNumber } from './system-calls.ts'

const RETURN_ALLOW = 0x7fff0000
const RETURN_ERRNO = 0x00050000
const RETURN_KILL_PROCESS = 0x80000000

/** Offsets in `struct seccomp_data`. Both architectures are little-endian, so the low half of an argument comes first. */
const NUMBER_OFFSET = 0
const ARCH_OFFSET = 4
const argumentLowOffset = (index: number): number => 16 + 8 * index

/**
 * The seccomp filter of every workload: an array of `struct sock_filter`, as seccomp(2) takes it. A call with the numbers of a
 * foreign architecture kills the process; a listed call fails with its errno; with one id, changes of owner succeed without
 * effect; any other call is allowed.
 *
 * Arguments are loaded only for calls that have a rule for them: for all others the kernel caches the constant result and does
 * not run the filter again.
 */
export function seccompFilter(arch: SeccompArch, { hasOneId = false } = {}): Buffer {
  const calls = argumentRules.map((rule) => rule.call)
  return assembleBpf([
    load(ARCH_OFFSET),
    { kind: 'jump-if', test: 'equal', value: auditArch[arch], whenTrue: undefined, whenFalse: 'kill' },
    load(NUMBER_OFFSET),
    { kind: 'jump-if', test: 'greater', value: NEWEST_JUDGED_CALL, whenTrue: 'ENOSYS', whenFalse: undefined },
    ...[...new Set(calls)].flatMap((call) => argumentBlock(call, arch)),
    ...plainVerdicts(refusedCalls.EPERM, 'EPERM', arch),
    ...plainVerdicts(refusedCalls.ENOSYS, 'ENOSYS', arch),
    ...(hasOneId ? plainVerdicts(ownerCalls, 'pretend', arch) : []),
    { kind: 'label', name: 'allow' },
    { kind: 'return', value: RETURN_ALLOW },
    { kind: 'label', name: 'pretend' },
    { kind: 'return', value: RETURN_ERRNO },
    { kind: 'label', name: 'kill' },
    { kind: 'return', value: RETURN_KILL_PROCESS },
    ...Object.entries(errno).flatMap(([name, value]): BpfStep[] => [
      { kind: 'label', name },
      { kind: 'return', value: RETURN_ERRNO | value },
    ]),
  ])
}

const load = (offset: number): BpfStep => ({ kind: 'load', offset })

function plainVerdicts(calls: readonly SystemCall[], verdict: string, arch: SeccompArch): readonly BpfStep[] {
  return calls.flatMap((call): BpfStep[] => {
    const value = systemCallNumber(call, arch)
    if (value === undefined) return []
    return [{ kind: 'jump-if', test: 'equal', value, whenTrue: verdict, whenFalse: undefined }]
  })
}

/** All rules of one call. The block ends in a verdict, so the number need not be loaded again. */
function argumentBlock(call: ArgumentRule['call'], arch: SeccompArch): readonly BpfStep[] {
  const value = systemCallNumber(call, arch)
  if (value === undefined) return []
  const after = `after ${call}`
  const rules = argumentRules.filter((rule) => rule.call === call)
  return [
    { kind: 'jump-if', test: 'equal', value, whenTrue: undefined, whenFalse: after },
    ...rules.flatMap((rule, index) => argumentSteps(rule, `${call} ${index}`)),
    { kind: 'return', value: RETURN_ALLOW },
    { kind: 'label', name: after },
  ]
}

function argumentSteps(rule: ArgumentRule, name: string): readonly BpfStep[] {
  const retained = `${name} kept`
  const steps: BpfStep[] = []
  if (rule.when !== undefined) {
    steps.push(load(argumentLowOffset(rule.when.argument)))
    steps.push({ kind: 'jump-if', test: 'equal', value: rule.when.value, whenTrue: undefined, whenFalse: retained })
  }
  steps.push(load(argumentLowOffset(rule.argument)))
  const test = rule.rule === 'refuse-bits' ? 'any-bit' : 'equal'
  const whenTrue = rule.rule === 'allow-only' ? retained : rule.errno
  for (const value of rule.values) steps.push({ kind: 'jump-if', test, value, whenTrue, whenFalse: undefined })
  if (rule.rule === 'allow-only') steps.push({ kind: 'return', value: RETURN_ERRNO | errno[rule.errno] })
  steps.push({ kind: 'label', name: retained })
  return steps
}
