import { type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import type { Random } from '../../kernel/random.ts'
import { createSemaphore } from '../../kernel/semaphore.ts'
import type { PasswordCost, Passwords } from './ports.ts'

const COST: PasswordCost = { log2N: 15, r: 8, p: 3 }
const HASH_BYTES = 32
const SALT_BYTES = 16
const AT_ONCE_MAX = 2

/**
 * Passwords are stored as `scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`, so that the cost can be raised without locking anybody out.
 * One hash takes 32 MiB, and few are computed at a time: a sign-in waits for earlier ones.
 */
export function createPasswords(random: Random, newCost: PasswordCost = COST): Passwords {
  const semaphore = createSemaphore(AT_ONCE_MAX)

  function derive(password: string, salt: Buffer, { log2N, r, p }: PasswordCost): Promise<Buffer> {
    const options: ScryptOptions = { N: 2 ** log2N, r, p, maxmem: 256 * 1024 * 1024 }
    return semaphore.run(
      () =>
        new Promise((resolve, reject) => {
          scrypt(password.normalize('NFKC'), salt, HASH_BYTES, options, (error, hash) =>
            error === null ? resolve(hash) : reject(error),
          )
        }),
    )
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
