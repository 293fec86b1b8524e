/** What several user ids are good for, installing packages among it: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID. */
export const PACKAGE_CAPABILITIES = 0b1100_1011n
