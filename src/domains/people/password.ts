import { type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import type { Random } from '../../kernel/random.ts'
import type { PasswordCost, Passwords } from './ports.ts'

const COST: PasswordCost = { log2N: 15, r: 8, p: 3 }
const HASH_BYTES = 32
const SALT_BYTES = 16
const AT_ONCE_MAX = 2

/**
 * Passwords are kept as `scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`, so that the cost can grow without locking anybody out. One hash
 * takes 32 MiB, and few are made at a time: a sign-in waits for those before it.
 */
export function createPasswords(random: Random, newCost: PasswordCost = COST): Passwords {
  const waiting: (() => void)[] = []
  let running = 0

  async function derive(password: string, salt: Buffer, { log2N, r, p }: PasswordCost): Promise<Buffer> {
    if (running >= AT_ONCE_MAX) await new Promise<void>((resolve) => waiting.push(resolve))
    running++
    try {
      const options: ScryptOptions = { N: 2 ** log2N, r, p, maxmem: 256 * 1024 * 1024 }
      return await new Promise((resolve, reject) => {
        scrypt(password.normalize('NFKC'), salt, HASH_BYTES, options, (error, hash) =>
          error === null ? resolve(hash) : reject(error),
        )
      })
    } finally {
      running--
      waiting.shift()?.()
    }
  }

  return {
    async hash(password) {
      const salt = random.bytes(SALT_BYTES)
      const hash = await derive(password, salt, newCost)
      return ['scrypt', newCost.log2N, newCost.r, newCost.p, salt.toString('base64'), hash.toString('base64')].join('$')
    },
    async verify(stored, password) {
      const [kind, log2N, r, p, salt = '', hash = ''] = stored.split('$')
      if (kind !== 'scrypt') return false
      const cost = { log2N: Number(log2N), r: Number(r), p: Number(p) }
      const derived = await derive(password, Buffer.from(salt, 'base64'), cost)
      const known = Buffer.from(hash, 'base64')
      return known.length === derived.length && timingSafeEqual(known, derived)
    },
  }
}
