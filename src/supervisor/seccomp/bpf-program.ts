/**
 * Assembles a classic BPF program with labels. Two rules of BPF shape this file: a conditional jump reaches at most 255
 * instructions, and jumps only go forward. A conditional jump to a more distant label is encoded as a jump over an unconditional
 * jump, which reaches any distance.
 */
export type BpfStep =
  | Readonly<{ kind: 'load'; offset: number }>
  | Readonly<{
      kind: 'jump-if'
      test: BpfTest
      value: number
      whenTrue: string | undefined
      whenFalse: string | undefined
    }>
  | Readonly<{ kind: 'return'; value: number }>
  | Readonly<{ kind: 'label'; name: string }>

type BpfTest = 'equal' | 'greater' | 'any-bit'
type JumpIf = Extract<BpfStep, { kind: 'jump-if' }>
type Instruction = Readonly<{ code: number; whenTrue: number; whenFalse: number; k: number }>

const LOAD_WORD_ABSOLUTE = 0x20
const JUMP_ALWAYS = 0x05
const RETURN_CONSTANT = 0x06
const testCodes: Readonly<Record<BpfTest, number>> = { equal: 0x15, greater: 0x25, 'any-bit': 0x45 }

const SHORT_JUMP_MAX = 255
/** The kernel's limit. */
const INSTRUCTIONS_MAX = 4096
const INSTRUCTION_BYTES = 8

/** A side of a jump without a label continues at the next instruction. */
export function assembleBpf(steps: readonly BpfStep[]): Buffer {
  const farSteps = new Set<number>()
  for (;;) {
    const starts = startOffsets(steps, farSteps)
    const labels = labelOffsets(steps, starts)
    const tooFar = steps.flatMap((step, index) => {
      if (step.kind !== 'jump-if' || farSteps.has(index)) return []
      const next = starts[index]! + 1
      const distances = [step.whenTrue, step.whenFalse].map((name) => distance(labels, name, next))
      return Math.max(...distances) > SHORT_JUMP_MAX ? [index] : []
    })
    if (tooFar.length === 0) return encode(steps, starts, labels, farSteps)
    for (const index of tooFar) farSteps.add(index)
  }
}

function sizeOf(step: BpfStep, far: boolean): number {
  if (step.kind === 'label') return 0
  return far ? 3 : 1
}

function startOffsets(steps: readonly BpfStep[], farSteps: ReadonlySet<number>): readonly number[] {
  let offset = 0
  return steps.map((step, index) => {
    const start = offset
    offset += sizeOf(step, farSteps.has(index))
    return start
  })
}

function labelOffsets(steps: readonly BpfStep[], starts: readonly number[]): ReadonlyMap<string, number> {
  const labels = new Map<string, number>()
  for (const [index, step] of steps.entries()) {
    if (step.kind !== 'label') continue
    if (labels.has(step.name)) throw new Error(`The label '${step.name}' is defined twice.`)
    labels.set(step.name, starts[index]!)
  }
  return labels
}

/** Relative to the instruction at `next`, which a jump of 0 reaches. */
function distance(labels: ReadonlyMap<string, number>, name: string | undefined, next: number): number {
  if (name === undefined) return 0
  const target = labels.get(name)
  if (target === undefined) throw new Error(`The label '${name}' is not defined.`)
  if (target < next) throw new Error(`The jump to '${name}' goes backward.`)
  return target - next
}

function encode(
  steps: readonly BpfStep[],
  starts: readonly number[],
  labels: ReadonlyMap<string, number>,
  farSteps: ReadonlySet<number>,
): Buffer {
  const instructions = steps.flatMap((step, index): readonly Instruction[] => {
    if (step.kind === 'label') return []
    if (step.kind === 'load') return [plain(LOAD_WORD_ABSOLUTE, step.offset)]
    if (step.kind === 'return') return [plain(RETURN_CONSTANT, step.value)]
    return farSteps.has(index) ? farJump(step, starts[index]!, labels) : [shortJump(step, starts[index]!, labels)]
  })
  if (instructions.length > INSTRUCTIONS_MAX) {
    throw new Error(
      `The program has ${instructions.length} instructions; the kernel takes at most ${INSTRUCTIONS_MAX}.`,
    )
  }
  const bytes = Buffer.alloc(instructions.length * INSTRUCTION_BYTES)
  for (const [index, { code, whenTrue, whenFalse, k }] of instructions.entries()) {
    const at = index * INSTRUCTION_BYTES
    bytes.writeUInt16LE(code, at)
    bytes.writeUInt8(whenTrue, at + 2)
    bytes.writeUInt8(whenFalse, at + 3)
    bytes.writeUInt32LE(k >>> 0, at + 4)
  }
  return bytes
}

const plain = (code: number, k: number): Instruction => ({ code, whenTrue: 0, whenFalse: 0, k })

function shortJump(step: JumpIf, start: number, labels: ReadonlyMap<string, number>): Instruction {
  const side = (name: string | undefined): number => distance(labels, name, start + 1)
  return { code: testCodes[step.test], whenTrue: side(step.whenTrue), whenFalse: side(step.whenFalse), k: step.value }
}

/** test → 0: jump to `whenTrue`, 1: jump to `whenFalse`. */
function farJump(step: JumpIf, start: number, labels: ReadonlyMap<string, number>): readonly Instruction[] {
  const afterBoth = start + 3
  const jumpFrom = (name: string | undefined, next: number): Instruction =>
    plain(JUMP_ALWAYS, name === undefined ? afterBoth - next : distance(labels, name, next))
  return [
    { code: testCodes[step.test], whenTrue: 0, whenFalse: 1, k: step.value },
    jumpFrom(step.whenTrue, start + 2),
    jumpFrom(step.whenFalse, start + 3),
  ]
}
