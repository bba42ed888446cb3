def gross(net: float) -> float:
    return round(net + round(net * 0.2, 2), 2)
