/** What the kernel would do with a seccomp filter, written from its description and not from our assembler. */
export type SystemCallAttempt = Readonly<{ arch: number; number: number; arguments?: readonly bigint[] }>

export function dataOf({ arch, number, arguments: values = [] }: SystemCallAttempt): Buffer {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(arch >>> 0, 4)
  for (const [index, value] of values.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index)
  return data
}

/** Also answers whether anything but the number and the architecture was looked at. */
export function runBpf(program: Buffer, data: Buffer): Readonly<{ value: number; readArguments: boolean }> {
  const count = program.length / 8
  let accumulator = 0
  let readArguments = false
  for (let at = 0; at < count; at++) {
    const code = program.readUInt16LE(at * 8)
    const whenTrue = program.readUInt8(at * 8 + 2)
    const whenFalse = program.readUInt8(at * 8 + 3)
    const k = program.readUInt32LE(at * 8 + 4)
    if (code === 0x20) {
      if (k % 4 !== 0) throw new Error(`Instruction ${at} loads from ${k}, which is not aligned.`)
      accumulator = data.readUInt32LE(k)
      readArguments ||= k >= 8
    } else if (code === 0x06) return { value: k, readArguments }
    else if (code === 0x05) at += k
    else if (code === 0x15) at += accumulator === k ? whenTrue : whenFalse
    else if (code === 0x25) at += accumulator > k ? whenTrue : whenFalse
    else if (code === 0x45) at += (accumulator & k) !== 0 ? whenTrue : whenFalse
    else throw new Error(`Instruction ${at} has the code ${code}, which the kernel's checker would refuse.`)
  }
  throw new Error('The program runs past its end.')
}

export function verdictName(value: number): string {
  if (value === 0x7fff0000) return 'allow'
  if (value === 0x80000000) return 'kill'
  const names: Readonly<Record<number, string>> = {
    1: 'EPERM',
    38: 'ENOSYS',
    93: 'EPROTONOSUPPORT',
    97: 'EAFNOSUPPORT',
  }
  const name = (value & 0xffff0000) === 0x00050000 ? names[value & 0xffff] : undefined
  return name ?? `unexpected ${value.toString(16)}`
}
