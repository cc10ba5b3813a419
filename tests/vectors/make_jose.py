#!/usr/bin/env python3
"""Makes jose.json: signed tokens of every algorithm that we accept, and forgeries of each, with the verdict they must get.

    .build/venv/bin/python tests/vectors/make_jose.py > tests/vectors/jose.json

In the form of C2SP/wycheproof, so that one test reads both. The keys are made here and forgotten.
"""

import base64
import hashlib
import hmac
import json
import os

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

PAYLOAD = b'{"sub":"ada"}'
HASHES = {256: hashes.SHA256(), 384: hashes.SHA384(), 512: hashes.SHA512()}
CURVES = {256: ec.SECP256R1(), 384: ec.SECP384R1()}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, length=None):
    return b64(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


def signers():
    """(algorithm, JWK, sign) of each."""
    secret = os.urandom(32)
    yield "HS256", {"kty": "oct", "k": b64(secret)}, lambda m: hmac.new(secret, m, hashlib.sha256).digest()
    pair = rsa.generate_private_key(65537, 2048)
    public = pair.public_key().public_numbers()
    jwk = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
    for bits, digest in HASHES.items():
        pss = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        yield f"RS{bits}", jwk, lambda m, digest=digest: pair.sign(m, padding.PKCS1v15(), digest)
        yield f"PS{bits}", jwk, lambda m, digest=digest, pss=pss: pair.sign(m, pss, digest)
    for bits, curve in CURVES.items():
        point, length = ec.generate_private_key(curve), bits // 8
        at = point.public_key().public_numbers()

        def ecdsa(message, point=point, length=length, digest=HASHES[bits]):
            r, s = decode_dss_signature(point.sign(message, ec.ECDSA(digest)))
            return r.to_bytes(length, "big") + s.to_bytes(length, "big")

        yield f"ES{bits}", {"kty": "EC", "crv": f"P-{bits}", "x": number(at.x, length), "y": number(at.y, length)}, ecdsa
    edwards = ed25519.Ed25519PrivateKey.generate()
    raw = edwards.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    yield "EdDSA", {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}, edwards.sign


def token(sign, header, payload=PAYLOAD):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    message = f"{b64(text)}.{b64(payload)}"
    return f"{message}.{b64(sign(message.encode()))}"


def cases(algorithm, jwk, sign, other):
    """(comment, token, is valid)."""
    header = {"alg": algorithm, "kid": "k"}
    good = token(sign, header)
    first, payload, signature = good.split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    public_as_secret = json.dumps(jwk).encode()
    confused = lambda m: hmac.new(public_as_secret, m, hashlib.sha256).digest()
    yield "with a key id", good, True
    yield "without a key id", token(sign, {"alg": algorithm}), True
    yield "with a type", token(sign, {"alg": algorithm, "typ": "JWT"}), True
    yield "of no payload", token(sign, header, b""), True
    yield "another payload", f"{first}.{b64(PAYLOAD + b' ')}.{signature}", False
    yield "another key", token(other, header), False
    yield "the last bit of the signature", f"{first}.{payload}.{b64(raw[:-1] + bytes([raw[-1] ^ 1]))}", False
    yield "the first bit of the signature", f"{first}.{payload}.{b64(bytes([raw[0] ^ 128]) + raw[1:])}", False
    yield "a signature cut short", f"{first}.{payload}.{b64(raw[:-1])}", False
    yield "a signature with more behind it", f"{first}.{payload}.{b64(raw + bytes(1))}", False
    yield "a signature of zeros", f"{first}.{payload}.{b64(bytes(len(raw)))}", False
    yield "no signature", f"{first}.{payload}.", False
    yield "no third part", f"{first}.{payload}", False
    yield "a fourth part", f"{good}.{signature}", False
    yield "with padding", f"{good}=", False
    yield "with a line break", f"{good}\n", False
    yield "alg none", f"{b64(json.dumps({'alg': 'none'}).encode())}.{payload}.", False
    yield "alg none with a signature", token(sign, {"alg": "none"}), False
    yield "alg in another case", token(sign, {"alg": algorithm.swapcase()}), False
    yield "alg of another kind of key", token(sign, {"alg": "RS256" if algorithm != "RS256" else "ES256"}), False
    yield "no alg", token(sign, {"kid": "k"}), False
    yield "alg twice", token(sign, b'{"alg":"none","alg":"%s"}' % algorithm.encode()), False
    yield "a critical extension", token(sign, {"alg": algorithm, "crit": ["b64"], "b64": False}), False
    yield "the public key as a secret", token(confused, {"alg": "HS256", "kid": "k"}), False
    yield "a key id that nobody has", token(sign, {"alg": algorithm, "kid": "another"}), False


def main():
    made, others, groups, count = list(signers()), {a: s for a, _, s in signers()}, [], 0
    for algorithm, jwk, sign in made:
        tests = []
        for comment, text, valid in cases(algorithm, jwk, sign, others[algorithm]):
            count += 1
            tests.append({"tcId": count, "comment": comment, "jws": text, "result": "valid" if valid else "invalid"})
        groups.append({"public": {**jwk, "alg": algorithm, "kid": "k"}, "tests": tests})
    print(json.dumps({"numberOfTests": count, "testGroups": groups}, indent=1))


if __name__ == "__main__":
    main()
